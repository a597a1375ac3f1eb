// context: a tree in which the end of one is the end of all below it; deadlines, causes, values; and nothing is kept
// for longer than somebody can tell.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <coir/context.hpp>
#include <coir/runtime.hpp>
#include <coir/select.hpp>
#include <coir/this_fiber.hpp>
#include <coir/wait_group.hpp>

#include "../runtime/counted.hpp"
#include "coir_test.hpp"

namespace {

using coir::context;
using coir_test::scaled;
using coir_test::until;
using coir_test::until_blocked;
using runtime_test::counted;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

template <class Error>
bool is(const std::exception_ptr& p) {
  if (!p) return false;
  try {
    std::rethrow_exception(p);
  } catch (const Error&) {
    return true;
  } catch (...) {
    return false;
  }
}

bool live(const context& c) {
  const bool no_error = c.err() == nullptr;
  EXPECT_EQ(c.cause() == nullptr, no_error);
  if (c.done()) {
    EXPECT_EQ(c.done().try_recv() == coir::recv_status::closed, !no_error);
  }
  return no_error;
}

class Context : public runtime_test::leak_checked {
 protected:
  void in_both(const std::function<void()>& f) const {
    run([&] { f(); });
    std::thread(f).join();
  }
};

TEST_P(Context, TheBackgroundNeverEnds) {
  const context ctx = context::background();
  EXPECT_TRUE(ctx.done().is_nil());
  EXPECT_EQ(ctx.err(), nullptr);
  EXPECT_EQ(ctx.cause(), nullptr);
  EXPECT_EQ(ctx.deadline(), std::nullopt);
  EXPECT_EQ(ctx.value<int>("key"), nullptr);
  EXPECT_TRUE(context().done().is_nil());
}

TEST_P(Context, CancelEndsItOnce) {
  in_both([] {
    auto [ctx, cancel] = coir::with_cancel(context::background());
    EXPECT_TRUE(live(ctx));
    EXPECT_EQ(ctx.deadline(), std::nullopt);
    const coir::recv_chan<void> done = ctx.done();
    EXPECT_EQ(done, ctx.done());
    cancel();
    EXPECT_FALSE(live(ctx));
    EXPECT_FALSE(done.recv());
    EXPECT_TRUE(is<coir::context_cancelled>(ctx.err()));
    EXPECT_EQ(ctx.cause(), ctx.err());
    cancel(std::make_exception_ptr(std::logic_error("too late")));
    EXPECT_EQ(ctx.cause(), ctx.err());
  });
}

TEST_P(Context, TheCauseIsWhatCancelWasGiven) {
  in_both([] {
    auto [ctx, cancel] = coir::with_cancel(context::background());
    auto [child, cancel_child] = coir::with_cancel(ctx);
    const auto copy = cancel;
    copy(std::make_exception_ptr(std::logic_error("disk full")));
    EXPECT_TRUE(is<coir::context_cancelled>(ctx.err()));
    EXPECT_TRUE(is<std::logic_error>(ctx.cause()));
    EXPECT_TRUE(is<coir::context_cancelled>(child.err()));
    EXPECT_TRUE(is<std::logic_error>(child.cause()));
    auto [born, cancel_born] = coir::with_timeout(child, 1h);
    EXPECT_TRUE(is<std::logic_error>(born.cause()));
  });
}

TEST_P(Context, ACancelFunctionIsACopyableCallable) {
  auto [ctx, cancel] = coir::with_cancel(context::background());
  const std::function<void()> f = cancel;
  const std::function<void(std::exception_ptr)> g = cancel;
  static_assert(std::is_copy_constructible_v<coir::cancel_function> && std::is_nothrow_invocable_v<decltype(cancel)>);
  coir::cancel_function nothing;
  nothing();
  EXPECT_TRUE(live(ctx));
  f();
  g(nullptr);
  EXPECT_FALSE(live(ctx));
}

TEST_P(Context, CancelReachesAllBelowAndNeverTheParent) {
  in_both([] {
    auto [root, cancel_root] = coir::with_cancel(context::background());
    auto [middle, cancel_middle] = coir::with_cancel(root);
    auto [sibling, cancel_sibling] = coir::with_cancel(root);
    const context valued = coir::with_value(middle, "k", 1);
    auto [leaf, cancel_leaf] = coir::with_cancel(coir::with_value(valued, "l", 2));
    auto [timed, cancel_timed] = coir::with_timeout(leaf, 1h);
    cancel_middle();
    EXPECT_TRUE(live(root));
    EXPECT_TRUE(live(sibling));
    EXPECT_FALSE(live(middle));
    EXPECT_FALSE(live(valued));
    EXPECT_FALSE(live(leaf));
    EXPECT_FALSE(live(timed));
    EXPECT_TRUE(is<coir::context_cancelled>(timed.err()));
    EXPECT_EQ(valued.done(), middle.done());
    cancel_root();
    EXPECT_FALSE(live(sibling));
  });
}

TEST_P(Context, AChildOfACancelledParentIsBornCancelled) {
  in_both([] {
    auto [parent, cancel] = coir::with_cancel(context::background());
    cancel();
    auto [child, cancel_child] = coir::with_cancel(parent);
    EXPECT_TRUE(is<coir::context_cancelled>(child.err()));
    EXPECT_FALSE(child.done().recv());
    auto [late, cancel_late] = coir::with_timeout(parent, -1s);
    EXPECT_TRUE(is<coir::context_cancelled>(late.err()));
    auto [valued, cancel_valued] = coir::with_cancel(coir::with_value(parent, 1, 1));
    EXPECT_FALSE(live(valued));
  });
}

TEST_P(Context, WakesThoseWhoWaitForIt) {
  run([] {
    auto [ctx, cancel] = coir::with_cancel(context::background());
    std::atomic<int> woken{0};
    std::vector<coir::task<void>> tasks;
    for (int i = 0; i < 50; ++i)
      tasks.push_back(coir::spawn([&woken, i, waited_for = ctx] {
        if (i % 2 == 0) {
          EXPECT_FALSE(waited_for.done().recv());
        } else {
          const auto never = coir::make_chan<int>();
          EXPECT_EQ(coir::select(coir::on_recv(never), coir::on_recv(waited_for.done())), 1U);
        }
        EXPECT_TRUE(is<coir::context_cancelled>(waited_for.err()));
        ++woken;
      }));
    until_blocked(tasks);
    std::thread waits([waited_for = ctx] { waited_for.done().recv(); });
    std::thread([cancels = cancel] { cancels(); }).join();
    for (auto& t : tasks) t.get();
    waits.join();
    EXPECT_EQ(woken, 50);
  });
}

TEST_P(Context, EndsAtItsDeadline) {
  in_both([] {
    const auto begin = clock::now();
    auto [ctx, cancel] = coir::with_timeout(context::background(), 3ms);
    ASSERT_TRUE(ctx.deadline().has_value());
    EXPECT_GE(*ctx.deadline(), begin + 3ms);
    EXPECT_LE(*ctx.deadline(), clock::now() + 3ms);
    EXPECT_FALSE(ctx.done().recv());
    EXPECT_GE(clock::now() - begin, 3ms);
    EXPECT_TRUE(is<coir::timed_out>(ctx.err()));
    EXPECT_EQ(ctx.cause(), ctx.err());
    cancel(std::make_exception_ptr(std::logic_error("too late")));
    EXPECT_TRUE(is<coir::timed_out>(ctx.err()));
  });
}

TEST_P(Context, APastDeadlineIsImmediate) {
  in_both([] {
    for (const auto d : {0ns, -1ns, std::chrono::nanoseconds::min() + 0ns}) {
      auto [ctx, cancel] = coir::with_timeout(context::background(), d);
      EXPECT_TRUE(is<coir::timed_out>(ctx.err()));
      EXPECT_FALSE(ctx.done().recv());
      ASSERT_TRUE(ctx.deadline().has_value());
      EXPECT_LE(*ctx.deadline(), clock::now());
      auto [child, cancel_child] = coir::with_cancel(ctx);
      EXPECT_TRUE(is<coir::timed_out>(child.err()));
    }
    const auto t = clock::now() - 1h;
    auto [ctx, cancel] = coir::with_deadline(context::background(), t);
    EXPECT_TRUE(is<coir::timed_out>(ctx.err()));
    EXPECT_EQ(ctx.deadline(), t);
  });
}

// The steady clock begins when the machine does.
TEST_P(Context, APastDeadlineMayLieBeforeTheClocksZero) {
  in_both([] {
    const auto t = clock::time_point{} - 1h;
    auto [ctx, cancel] = coir::with_deadline(context::background(), t);
    EXPECT_TRUE(is<coir::timed_out>(ctx.err()));
    EXPECT_EQ(ctx.deadline(), t);

    const auto age = clock::now().time_since_epoch();
    const auto begin = clock::now();
    auto [older, cancel_older] = coir::with_timeout(context::background(), -age - 1h);
    EXPECT_TRUE(is<coir::timed_out>(older.err()));
    EXPECT_GE(older.deadline(), begin - age - 1h);
    EXPECT_LE(older.deadline(), clock::now() - age - 1h);

    using other = std::chrono::system_clock;
    auto [by_other, cancel_by_other] = coir::with_deadline(context::background(), other::now() - age - 1h);
    EXPECT_TRUE(is<coir::timed_out>(by_other.err()));
    EXPECT_LE(by_other.deadline(), clock::time_point{} - 59min);

    auto [first, cancel_first] = coir::with_timeout(context::background(), std::chrono::hours::min());
    EXPECT_TRUE(is<coir::timed_out>(first.err()));
    EXPECT_LT(*first.deadline() - clock::now(), -100 * 365 * 24h);  // does not overflow
  });
}

TEST_P(Context, TheEarlierDeadlineWins) {
  in_both([] {
    const auto soon = clock::now() + 3ms;
    auto [parent, cancel_parent] = coir::with_deadline(context::background(), soon);
    auto [later, cancel_later] = coir::with_timeout(parent, 1h);
    auto [none, cancel_none] = coir::with_cancel(later);
    EXPECT_EQ(parent.deadline(), soon);
    EXPECT_EQ(later.deadline(), soon);
    EXPECT_EQ(none.deadline(), soon);
    EXPECT_FALSE(none.done().recv());
    EXPECT_TRUE(is<coir::timed_out>(later.err()));
    EXPECT_TRUE(is<coir::timed_out>(none.err()));

    auto [far, cancel_far] = coir::with_timeout(context::background(), 1h);
    auto [near, cancel_near] = coir::with_timeout(far, 2ms);
    EXPECT_LT(*near.deadline(), *far.deadline());
    EXPECT_FALSE(near.done().recv());
    EXPECT_TRUE(is<coir::timed_out>(near.err()));
    EXPECT_TRUE(live(far));
  });
}

TEST_P(Context, DeadlinesOfAnySizeAndClock) {
  in_both([] {
    auto [longest, cancel_longest] = coir::with_timeout(context::background(), std::chrono::hours::max());
    EXPECT_TRUE(live(longest));
    EXPECT_GT(*longest.deadline(), clock::now() + 24h * 365 * 100);
    auto [last, cancel_last] = coir::with_deadline(context::background(), clock::time_point::max());
    EXPECT_TRUE(live(last));
    auto [wall, cancel_wall] = coir::with_deadline(context::background(), std::chrono::system_clock::now() + 1h);
    EXPECT_TRUE(live(wall));
    EXPECT_GT(*wall.deadline(), clock::now() + 59min);
    auto [fraction, cancel_fraction] = coir::with_timeout(context::background(), std::chrono::duration<double>(0.002));
    EXPECT_FALSE(fraction.done().recv());
  });
}

TEST_P(Context, ACancelledOneNoLongerTimesOut) {
  in_both([] {
    for (;;) {
      const auto begin = std::chrono::steady_clock::now();
      auto [ctx, cancel] = coir::with_timeout(context::background(), 2ms);
      cancel();
      if (std::chrono::steady_clock::now() - begin >= 2ms) continue;  // too late, perhaps: the machine was elsewhere
      coir::sleep_for(4ms);
      EXPECT_TRUE(is<coir::context_cancelled>(ctx.err()));
      return;
    }
  });
}

// ---- values ------------------------------------------------------------------------------------------------------

enum class key { user, trace };
struct point_key {
  int x, y;
  bool operator==(const point_key&) const = default;
};

TEST_P(Context, FindsTheNearestValueOfAnEqualKey) {
  const context a = coir::with_value(context::background(), key::user, std::string("ann"));
  const context b = coir::with_value(a, key::trace, 17);
  auto [c, cancel] = coir::with_cancel(b);
  const context d = coir::with_value(c, key::user, std::string("bob"));
  EXPECT_EQ(*d.value<std::string>(key::user), "bob");
  EXPECT_EQ(*d.value<int>(key::trace), 17);
  EXPECT_EQ(*c.value<std::string>(key::user), "ann");
  EXPECT_EQ(a.value<int>(key::trace), nullptr);
  EXPECT_EQ(d.value<int>(key::user), nullptr);  // it is a string
  EXPECT_EQ(d.value<std::string>(key::user), d.value<std::string>(key::user));
}

TEST_P(Context, KeysCompareWithinTheirType) {
  context c = coir::with_value(context::background(), 1, std::string("int"));
  c = coir::with_value(c, 1L, std::string("long"));
  c = coir::with_value(c, key::trace, std::string("enum"));
  c = coir::with_value(c, point_key{1, 2}, std::string("point"));
  EXPECT_EQ(*c.value<std::string>(1), "int");
  EXPECT_EQ(*c.value<std::string>(1L), "long");
  EXPECT_EQ(c.value<std::string>(1U), nullptr);
  EXPECT_EQ(*c.value<std::string>(point_key{1, 2}), "point");
  EXPECT_EQ(c.value<std::string>(point_key{2, 1}), nullptr);
}

TEST_P(Context, TextIsOneTypeOfKey) {
  const std::string name = "request";
  const context c = coir::with_value(context::background(), name.c_str(), 5);
  EXPECT_EQ(*c.value<int>("request"), 5);
  EXPECT_EQ(*c.value<int>(name), 5);
  EXPECT_EQ(*c.value<int>(std::string_view(name)), 5);
  EXPECT_EQ(c.value<int>("other"), nullptr);
}

TEST_P(Context, ValuesMayBeMoveOnlyAndLiveAsLongAsTheirContexts) {
  std::optional<context> below;
  {
    const context c = coir::with_value(context::background(), 1, std::make_unique<counted>(8));
    below = coir::with_cancel(c).first;
  }
  EXPECT_EQ((*below->value<std::unique_ptr<counted>>(1))->value(), 8);
  EXPECT_EQ(counted::live(), 1);
  below.reset();
  EXPECT_EQ(counted::live(), 0);
}

// ---- lifetimes ---------------------------------------------------------------------------------------------------

TEST_P(Context, DroppingHandlesCancelsNothing) {
  in_both([] {
    std::optional<context> kept;
    {
      auto [ctx, cancel] = coir::with_cancel(context::background());
      kept = ctx;
    }
    EXPECT_TRUE(live(*kept));
  });
}

TEST_P(Context, TheDoneChannelIsClosedEvenIfNobodyKeptTheContext) {
  in_both([] {
    auto [parent, cancel] = coir::with_cancel(context::background());
    const coir::recv_chan<void> by_parent = coir::with_cancel(parent).first.done();
    const coir::recv_chan<void> by_deadline = coir::with_timeout(context::background(), 1ms).first.done();
    EXPECT_FALSE(by_deadline.recv());
    EXPECT_EQ(by_parent.try_recv(), coir::recv_status::would_block);
    cancel();
    EXPECT_EQ(by_parent.try_recv(), coir::recv_status::closed);
  });
}

TEST_P(Context, NobodyNeedsToCancelForMemory) {
  run([] {
    auto [parent, cancel_parent] = coir::with_cancel(context::background());
    std::vector<coir::recv_chan<void>> some;
    for (int i = 0; i < scaled(100'000); ++i) {
      const context valued = coir::with_value(parent, 1, counted());
      auto [child, cancel] = i % 2 == 0 ? coir::with_cancel(valued) : coir::with_timeout(valued, 1h);
      if (i % 3 == 0) cancel();
      if (i % 5 == 0) {
        EXPECT_EQ(child.done().try_recv() == coir::recv_status::closed, i % 3 == 0);
      }
      if (i % (scaled(100'000) / 10 + 1) == 0) some.push_back(child.done());
    }
    EXPECT_EQ(counted::live(), static_cast<int>(some.size()));
    cancel_parent();
    for (const auto& done : some) EXPECT_EQ(done.try_recv(), coir::recv_status::closed);
    some.clear();
    EXPECT_EQ(counted::live(), 0);
  });
}

TEST_P(Context, ACancelledChildIsFreedThoughItsParentLives) {
  auto [parent, cancel_parent] = coir::with_cancel(context::background());
  for (int i = 0; i < 100; ++i) {
    auto [child, cancel] = coir::with_cancel(coir::with_value(parent, 1, counted()));
    cancel();
  }
  EXPECT_EQ(counted::live(), 0);
}

TEST_P(Context, ALongChainIsFreedWithoutRecursion) {
  run([] {  // on a fiber's stack
    context c;
    for (int i = 0; i < 100'000; ++i) {
      c = coir::with_value(c, i, i);
      if (i % 10 == 0) c = coir::with_cancel(c).first;
    }
    EXPECT_EQ(*c.value<int>(0), 0);
  });
}

TEST_P(Context, ALongChainIsCancelledWithoutRecursion) {
  run([] {
    auto [root, cancel] = coir::with_cancel(context::background());
    context c = root;
    for (int i = 0; i < scaled(50'000); ++i) c = coir::with_cancel(c).first;
    cancel();
    EXPECT_FALSE(live(c));
  });
}

TEST_P(Context, AFiberMayOutliveAllOtherHandles) {
  run([] {
    coir::task<void> waiter;
    coir::cancel_function cancel;
    {
      auto made = coir::with_cancel(context::background());
      cancel = made.second;
      waiter = coir::spawn([done = made.first.done()] { done.recv(); });
    }
    until_blocked(waiter);
    cancel();
    waiter.get();
  });
}

/// Counts those of its kind that were destroyed outside a fiber.
class fibers_own {
 public:
  explicit fibers_own(std::atomic<int>& strays) : strays_(&strays) {}
  fibers_own(fibers_own&& other) noexcept : strays_(std::exchange(other.strays_, nullptr)) {}
  ~fibers_own() {
    if (strays_ != nullptr && !coir::this_fiber::is_fiber()) strays_->fetch_add(1);
  }

 private:
  std::atomic<int>* strays_;
};

// The deadline passes on a thread of the library, where a destructor might wait for what only that thread can do. So
// the last handle must not go there, though it is dropped while those whom the deadline wakes are still being woken.
TEST_P(Context, ADeadlineDestroysNothingOfTheUsers) {
  std::atomic<int> strays{0};
  run([&] {
    for (int round = 0; round < scaled(50) + 5; ++round) {
      std::optional<coir::recv_chan<void>> done;
      {
        const context valued = coir::with_value(context::background(), 1, fibers_own(strays));
        done = coir::with_timeout(valued, 10ms).first.done();
      }
      std::vector<coir::task<void>> waiters;
      for (int i = 0; i < 60; ++i) waiters.push_back(coir::spawn([&] { done->recv(); }));  // none has a handle
      const auto asleep = [](const auto& w) { return w.status() == coir::task_status::blocked; };
      const auto over = [](const auto& w) { return w.status() == coir::task_status::finished; };
      until([&] { return std::ranges::any_of(waiters, over) || std::ranges::all_of(waiters, asleep); });
      const bool in_time = std::ranges::all_of(waiters, asleep) && done->try_recv() != coir::recv_status::closed;
      if (in_time) {
        while (done->try_recv() != coir::recv_status::closed) coir::yield();
        done.reset();
      }
      for (auto& w : waiters) w.get();
    }
  });
  EXPECT_EQ(strays.load(), 0);
}

TEST_P(Context, ADeadlineMayOutliveItsRuntime) {
  std::optional<context> kept;
  run([&] { kept = coir::with_timeout(context::background(), 1h).first; });
  EXPECT_TRUE(live(*kept));
}

// ---- at once -----------------------------------------------------------------------------------------------------

TEST_P(Context, AHundredConcurrentCancelsOfOneTree) {
  run([] {
    for (int round = 0; round < scaled(50); ++round) {
      std::vector<context> contexts{context::background()};
      std::vector<coir::cancel_function> cancels;
      for (std::size_t i = 0; i < 100; ++i) {
        auto [ctx, cancel] = coir::with_cancel(contexts[i / 3]);
        contexts.push_back(ctx);
        cancels.push_back(cancel);
      }
      std::atomic<int> woken{0};
      coir::wait_group waiters, cancellers;
      for (std::size_t i = 1; i <= 100; ++i)
        waiters.go([&, ctx = contexts[i]] {
          EXPECT_FALSE(ctx.done().recv());
          EXPECT_NE(ctx.err(), nullptr);
          ++woken;
        });
      std::thread foreign([&] {
        for (std::size_t i = 0; i < 100; i += 7) cancels[i]();
      });
      for (std::size_t i = 0; i < 100; ++i)
        cancellers.go([&cancels, i] { cancels[(i * 37) % 100](std::make_exception_ptr(std::logic_error("one"))); });
      cancellers.wait();
      waiters.wait();
      foreign.join();
      EXPECT_EQ(woken, 100);
      for (std::size_t i = 1; i <= 100; ++i) EXPECT_FALSE(live(contexts[i]));
    }
  });
}

TEST_P(Context, WhenAnyOfSeveralConcurrentCancelsReturnsItIsDone) {
  run([] {
    for (int round = 0; round < scaled(400); ++round) {
      auto [ctx, cancel] = with_cancel(context::background());
      std::vector<coir::task<void>> waiting;
      if (round % 2 == 0) {  // else the channel is made by who looks first
        for (int i = 0; i < 20; ++i) waiting.push_back(coir::spawn([done = ctx.done()] { done.recv(); }));
        until_blocked(waiting);
      }
      std::atomic<int> ready{0}, wrong{0};
      const auto end_and_look = [&, &ended = ctx, &end = cancel] {
        ++ready;
        until([&] { return ready == 4; });
        end();
        if (ended.err() == nullptr || ended.done().try_recv() != coir::recv_status::closed) ++wrong;
      };
      std::thread outside(end_and_look);
      std::vector<coir::task<void>> inside;
      for (int i = 0; i < 3; ++i) inside.push_back(coir::spawn(end_and_look));
      for (auto& t : inside) t.get();
      coir::blocking([&] { outside.join(); });
      for (auto& t : waiting) t.get();
      ASSERT_EQ(wrong, 0) << round;
    }
  });
}

// Of a tree, each node of which somebody cancels, and its root by its deadline too.
TEST_P(Context, WhenAnyOfSeveralConcurrentCancelsReturnsAllBelowAreDone) {
  run([] {
    constexpr std::size_t nodes = 60;
    for (int round = 0; round < scaled(200); ++round) {
      std::vector<context> contexts;
      std::vector<coir::cancel_function> cancels;
      std::vector<coir::recv_chan<void>> done;
      std::vector<std::size_t> parent_of(nodes);
      // The first ten are a chain, the others hang below them.
      for (std::size_t i = 0; i < nodes; ++i) {
        parent_of[i] = i == 0 ? 0 : std::min<std::size_t>(i - 1, 9);
        const context above = i == 0 ? context::background() : contexts[parent_of[i]];
        auto [ctx, cancel] = i == 0 && round % 3 == 0 ? coir::with_timeout(above, 20us) : coir::with_cancel(above);
        contexts.push_back(ctx);
        cancels.push_back(cancel);
        done.push_back(ctx.done());
      }
      std::atomic<int> ready{0}, wrong{0};
      const auto end_and_look = [&](std::size_t node) {
        ++ready;
        until([&] { return ready == 6; });
        cancels[node]();
        for (std::size_t i = node; i < nodes; ++i) {
          std::size_t above = i;
          while (above > node) above = parent_of[above];
          if (above != node) continue;
          if (contexts[i].err() == nullptr || done[i].try_recv() != coir::recv_status::closed) ++wrong;
        }
      };
      std::thread outside([&] { end_and_look(0); });
      std::vector<coir::task<void>> inside;
      for (const std::size_t node : {0U, 0U, 2U, 5U, 9U})
        inside.push_back(coir::spawn([&end_and_look, node] { end_and_look(node); }));
      for (auto& t : inside) t.get();
      coir::blocking([&] { outside.join(); });
      ASSERT_EQ(wrong, 0) << round;
    }
  });
}

// Children come, go, are dropped and are asked for their channel while the parent ends, by hand or by its deadline.
TEST_P(Context, TheEndOfAParentRacesItsChildren) {
  run([] {
    for (int round = 0; round < scaled(300); ++round) {
      auto [parent, cancel] = round % 2 == 0
                                  ? coir::with_cancel(context::background())
                                  : coir::with_timeout(context::background(), std::chrono::microseconds(round % 80));
      coir::wait_group all;
      for (int f = 0; f < 6; ++f)
        all.go([ends = parent, f] {
          for (int i = 0;; ++i) {
            auto [child, cancel_child] = f % 2 == 0 ? coir::with_cancel(coir::with_value(ends, f, counted()))
                                                    : coir::with_timeout(ends, std::chrono::microseconds(i % 30));
            const auto done = i % 2 == 0 ? child.done() : coir::recv_chan<void>();
            if (i % 3 == 0) cancel_child();
            if (ends.err()) {
              if (done) {
                EXPECT_FALSE(done.recv());
              }
              EXPECT_FALSE(child.done().recv());
              EXPECT_NE(child.err(), nullptr);
              return;
            }
            if (i % 8 == 0) coir::yield();
          }
        });
      if (round % 2 == 0) {
        for (int i = 0; i < round % 20; ++i) coir::yield();
        cancel();
      }
      all.wait();
      until([] { return counted::live() == 0; });  // an alarm that rings may be the last to let go
    }
  });
}

TEST_P(Context, CancelHappensBeforeWhoSeesItDone) {
  run([] {
    for (int i = 0; i < scaled(1000); ++i) {
      auto [ctx, cancel] = coir::with_cancel(context::background());
      int data = 0;  // not atomic
      coir::task<int> reader = coir::spawn([&data, done = ctx.done()] {
        done.recv();
        return data;
      });
      data = 1;
      cancel();
      EXPECT_EQ(reader.get(), 1);
    }
  });
}

struct throws_when_copied {
  throws_when_copied() = default;
  throws_when_copied(const throws_when_copied&) { throw std::runtime_error("no copy"); }
  throws_when_copied& operator=(const throws_when_copied&) = delete;
  bool operator==(const throws_when_copied&) const { throw std::runtime_error("no comparison"); }
};

TEST_P(Context, AValueThatCannotBeCopiedLeavesTheParentAsItWas) {
  run([] {
    const auto held = std::make_shared<int>(1);
    {
      const context parent = with_value(context::background(), "key", held);
      const throws_when_copied fragile;
      EXPECT_THROW(static_cast<void>(with_value(parent, 1, fragile)), std::runtime_error);
      EXPECT_THROW(static_cast<void>(with_value(parent, fragile, 1)), std::runtime_error);
    }
    EXPECT_EQ(held.use_count(), 1);
  });
}

struct throws_when_compared {
  bool operator==(const throws_when_compared&) const { throw std::runtime_error("no comparison"); }
};

TEST_P(Context, AKeyThatCannotBeComparedIsTheCallersError) {
  run([] {
    const context c = with_value(context::background(), throws_when_compared(), 1);
    EXPECT_THROW(static_cast<void>(c.value<int>(throws_when_compared())), std::runtime_error);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, Context, coir_test::processors, coir_test::processors_name);

}  // namespace
