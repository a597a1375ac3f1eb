// Alarms: called once, in time, or not at all; from fibers and plain threads; armed here and disarmed there; and what
// becomes of one whose runtime ends, in whatever order that happens.
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <coir/detail/alarm.hpp>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using coir::detail::alarm;
using coir::detail::deadline;
using coir::detail::deadline_after;
using coir_test::scaled;
using coir_test::until;
using runtime_test::gate;
using namespace std::chrono_literals;

class Alarm : public runtime_test::leak_checked {};

void count_call(void* arg, std::uint64_t) noexcept { static_cast<std::atomic<int>*>(arg)->fetch_add(1); }
void open_gate(void* arg, std::uint64_t) noexcept { static_cast<gate*>(arg)->open(); }

struct called {
  std::atomic<deadline> at{0};
  std::atomic<std::uint64_t> stamp{0};
  gate done;

  static void call(void* arg, std::uint64_t stamp) noexcept {
    auto& self = *static_cast<called*>(arg);
    self.at = coir::detail::now();
    self.stamp = stamp;
    self.done.open();
  }
};

void expect_called_in_time() {
  called c;
  alarm a;
  const deadline when = deadline_after(2ms);
  a.arm(when, &called::call, &c, 42);
  c.done.pass();
  EXPECT_GE(c.at, when);
  EXPECT_EQ(c.stamp, 42U);
  EXPECT_FALSE(a.disarm());
}

TEST_P(Alarm, CallsItsFunctionAtTheDeadline) {
  run([] { expect_called_in_time(); });
}
TEST_P(Alarm, WorksOutsideARuntime) { expect_called_in_time(); }

TEST_P(Alarm, AnEarlierOneOfAPlainThreadIsNotKeptWaitingByALaterOne) {
  std::atomic<int> calls{0};
  alarm late;
  late.arm(deadline_after(1h), &count_call, &calls);
  expect_called_in_time();
  EXPECT_TRUE(late.disarm());
  EXPECT_EQ(calls, 0);
}

TEST_P(Alarm, ThatIsDisarmedIsNeverCalled) {
  const auto body = [] {
    std::atomic<int> calls{0};
    alarm a;
    EXPECT_FALSE(a.disarm());
    a.arm(deadline_after(3ms), &count_call, &calls);
    const bool prevented = a.disarm();
    EXPECT_FALSE(a.disarm());
    coir::sleep_for(6ms);
    EXPECT_EQ(calls, prevented ? 0 : 1);
    a.arm(deadline_after(std::chrono::hours::max()), &count_call, &calls);
    EXPECT_TRUE(a.disarm());
  };
  run(body);
  body();
}

// Whether it can be moved is not the caller's to know: the fiber may have got to another processor. But mostly it can.
TEST_P(Alarm, ThatIsMovedIsCalledOnceAtItsNewTimeWithItsNewStamp) {
  run([] {
    int moves = 0;
    for (int i = 0; i < scaled(100); ++i) {
      std::atomic<int> calls{0};
      called c;
      alarm before;
      alarm a;
      alarm after;
      before.arm(deadline_after(1h), &count_call, &calls);
      a.arm(deadline_after(i % 2 == 0 ? 2h : 20us), &called::call, &c, 1);
      after.arm(deadline_after(3h), &count_call, &calls);
      const deadline when = deadline_after(100us);
      const bool moved = a.move(when, 2);
      if (moved) ++moves;
      if (moved || !a.disarm()) {
        c.done.pass();
        EXPECT_EQ(c.stamp, moved ? 2U : 1U);
        EXPECT_GE(c.at, moved ? when : 0);
      }
      EXPECT_FALSE(a.disarm());
      EXPECT_TRUE(before.disarm());
      EXPECT_TRUE(after.disarm());
      EXPECT_EQ(calls, 0);
      if (testing::Test::HasFailure()) break;
    }
    EXPECT_GT(moves, 0);
  });
}

TEST_P(Alarm, ThatIsNotArmedOrLiesElsewhereIsNotMoved) {
  std::atomic<int> calls{0};
  alarm a;
  EXPECT_FALSE(a.move(deadline_after(1h), 1));
  a.arm(deadline_after(1h), &count_call, &calls);
  EXPECT_FALSE(a.move(deadline_after(1us), 1));
  run([&] { EXPECT_FALSE(a.move(deadline_after(1us), 1)); });
  EXPECT_TRUE(a.disarm());
  EXPECT_EQ(calls, 0);
  run([] {
    called c;
    alarm fired;
    fired.arm(deadline_after(1us), &called::call, &c);
    c.done.pass();
    EXPECT_FALSE(fired.move(deadline_after(1h), 1));
    EXPECT_FALSE(fired.disarm());
  });
}

TEST_P(Alarm, ADeadlineLongPastIsCalledAtOnceAndNotByTheCaller) {
  const auto body = [] {
    called c;
    alarm a;
    a.arm(0, &called::call, &c, 7);
    c.done.pass();
    EXPECT_EQ(c.stamp, 7U);
  };
  run(body);
  body();
}

struct periodic {
  alarm a;
  std::atomic<int> left{20};
  gate done;
  static void call(void* arg, std::uint64_t) noexcept {
    auto& self = *static_cast<periodic*>(arg);
    if (--self.left == 0)
      self.done.open();
    else
      self.a.arm(deadline_after(100us), &call, &self);
  }
};

TEST_P(Alarm, MayBeArmedAgainByItsFunction) {
  const auto body = [] {
    periodic p;
    p.a.arm(deadline_after(100us), &periodic::call, &p);
    p.done.pass();
    EXPECT_EQ(p.left, 0);
  };
  run(body);
  body();
}

// Each alarm ends one way: called, or disarmed. Whoever disarms is a fiber here or on another processor, or a thread.
TEST_P(Alarm, IsCalledOrDisarmedNeverBoth) {
  struct round {
    alarm a;
    std::atomic<int> calls{0};
  };
  const auto race = [](bool arm_in_fiber, bool disarm_in_fiber) {
    std::atomic<round*> given{nullptr};
    std::atomic<bool> done{false};
    int disarmed = 0;
    const auto taker = [&] {
      for (unsigned i = 0; !done; ++i) {
        round* r = given.exchange(nullptr);
        if (r == nullptr) {
          coir_test::pause();
          continue;
        }
        if (i % 3 != 0) coir::sleep_for(std::chrono::microseconds(i * 7 % 90));
        if (r->a.disarm())
          ++disarmed;
        else
          until([&] { return r->calls != 0; });
        EXPECT_FALSE(r->a.disarm());
      }
    };
    const int rounds = scaled(300);
    std::vector<std::unique_ptr<round>> all;
    const auto giver = [&] {
      for (int i = 0; i < rounds; ++i) {
        all.push_back(std::make_unique<round>());
        round* r = all.back().get();
        r->a.arm(deadline_after(std::chrono::microseconds(i * 13 % 80)), &count_call, &r->calls);
        round* before = nullptr;
        while (!given.compare_exchange_strong(before, r)) {
          before = nullptr;
          coir_test::pause();
        }
      }
      until([&] { return given.load() == nullptr; });
      done = true;
    };
    std::optional<coir::runtime> rt;
    coir::options o;
    o.processors = GetParam();
    rt.emplace(o);
    std::thread foreign(arm_in_fiber ? std::function<void()>([&] {
      if (disarm_in_fiber)
        rt->run(taker);
      else
        taker();
    })
                                     : std::function<void()>(giver));
    if (arm_in_fiber)
      rt->run(giver);
    else if (disarm_in_fiber)
      rt->run(taker);
    else
      taker();
    foreign.join();
    rt.reset();
    int calls = 0;
    for (const auto& r : all) {
      EXPECT_LE(r->calls, 1);
      calls += r->calls;
    }
    EXPECT_EQ(calls + disarmed, rounds);
  };
  race(true, true);
  race(true, false);
  race(false, true);
  race(false, false);
}

TEST_P(Alarm, OfAFiberDoesNotKeepRunFromDraining) {
  std::atomic<int> calls{0};
  alarm a;
  run([&] { a.arm(deadline_after(1h), &count_call, &calls); });
  EXPECT_TRUE(a.disarm());
  EXPECT_FALSE(a.disarm());
  EXPECT_EQ(calls, 0);
}

TEST_P(Alarm, OfARuntimeThatHasEndedIsNeverCalledAndMayBeArmedAnew) {
  std::atomic<int> calls{0};
  alarm a, b, c;
  run([&] {
    a.arm(deadline_after(2ms), &count_call, &calls);
    b.arm(deadline_after(1h), &count_call, &calls);
    c.arm(deadline_after(1h), &count_call, &calls);
  });
  called again;
  b.arm(deadline_after(1ms), &called::call, &again, 1);
  again.done.pass();
  EXPECT_FALSE(b.disarm());
  const bool first = a.disarm();
  EXPECT_EQ(calls, first ? 0 : 1);
  run([&] { EXPECT_TRUE(c.disarm()); });  // perhaps at the same address
}

// The runtime goes while others disarm what is armed there: each alarm is disarmed once, and nothing is touched late.
TEST_P(Alarm, MayBeDisarmedAtTheMomentItsRuntimeEnds) {
  constexpr int count = 8;
  for (int i = 0; i < scaled(400); ++i) {
    std::atomic<int> calls{0}, prevented{0};
    std::atomic<bool> armed{false};
    alarm alarms[count];
    std::thread other([&] {
      until([&] { return armed.load(); });
      for (volatile int spin = 0; spin < i % 40 * 50;) spin = spin + 1;
      for (alarm& a : alarms)
        if (a.disarm()) ++prevented;
    });
    run([&] {
      for (int k = 0; k < count; ++k)
        alarms[k].arm(k % 2 == 0 ? deadline_after(1h) : deadline_after(std::chrono::microseconds(i % 30)), &count_call,
                      &calls);
      armed = true;
    });
    other.join();
    EXPECT_EQ(calls + prevented, count);
    if (HasFailure()) break;
  }
}

TEST_P(Alarm, ThatIsPendingMayEndADeadlock) {
  run([] {
    gate door;
    alarm a;
    a.arm(deadline_after(30ms), &open_gate, &door);
    EXPECT_NO_THROW(door.pass());
  });
  gate door;  // the alarm of a thread that is then blocked in run()
  alarm a;
  a.arm(deadline_after(30ms), &open_gate, &door);
  EXPECT_NO_THROW(run([&] { door.pass(); }));
}

TEST_P(Alarm, ThatIsGoneDoesNotHoldADeadlockUp) {
  gate never;
  std::atomic<int> calls{0};
  alarm outside, inside;
  outside.arm(deadline_after(20ms), &count_call, &calls);
  EXPECT_THROW(run([&] {
                 inside.arm(deadline_after(10ms), &count_call, &calls);
                 never.pass();
               }),
               coir::deadlock);
  EXPECT_EQ(calls, 2);
  outside.arm(deadline_after(1h), &count_call, &calls);
  EXPECT_TRUE(outside.disarm());
  EXPECT_THROW(run([&] {
                 inside.arm(deadline_after(1h), &count_call, &calls);
                 inside.disarm();
                 never.pass();
               }),
               coir::deadlock);
}

// Nobody of the runtime is awake to notice that its last timer is gone.
TEST_P(Alarm, ThatAThreadDisarmsDoesNotHoldADeadlockUp) {
  gate never;
  std::atomic<int> calls{0};
  alarm a;
  std::thread other([&] {
    until([&] { return never.awaited(); });
    std::this_thread::sleep_for(5ms);  // most often all workers sleep by then
    EXPECT_TRUE(a.disarm());
  });
  EXPECT_THROW(run([&] {
                 a.arm(deadline_after(1h), &count_call, &calls);
                 never.pass();
               }),
               coir::deadlock);
  other.join();
}

TEST_P(Alarm, ThatAnotherRuntimeDisarmsDoesNotHoldADeadlockUp) {
  gate never;
  std::atomic<int> calls{0};
  alarm a;
  coir::runtime other{opts()};
  other.go([&] {
    until([&] { return never.awaited(); });
    coir::sleep_for(5ms);
    EXPECT_TRUE(a.disarm());
  });
  EXPECT_THROW(run([&] {
                 a.arm(deadline_after(1h), &count_call, &calls);
                 never.pass();
               }),
               coir::deadlock);
}

TEST_P(Alarm, NameOfARuntimeStartsFibersThereUntilItEnds) {
  std::atomic<int> ran{0};
  std::optional<coir::detail::runtime_name> name;
  const auto record = [&] {
    auto body = [&ran] { ++ran; };
    return coir::detail::make_record<coir::detail::go_record<decltype(body)>>(body, coir::source_location::current());
  };
  {
    coir::runtime rt{opts()};
    rt.run([&] {
      name.emplace("test");
      EXPECT_TRUE(name->start(record()));
    });
    EXPECT_TRUE(name->start(record()));
  }
  EXPECT_EQ(ran, 2);
  auto* refused = record();
  EXPECT_FALSE(name->start(refused));
  coir::detail::destroy_record(refused);
  EXPECT_THROW(coir::detail::runtime_name("test"), coir::not_in_runtime);
}

// Those that come through the name at the moment the runtime ends either run, or are refused.
TEST_P(Alarm, NameOfARuntimeThatIsAboutToEndStartsOrRefuses) {
  for (int i = 0; i < scaled(300); ++i) {
    std::atomic<int> ran{0};
    int accepted = 0;
    std::optional<coir::detail::runtime_name> name;
    std::atomic<bool> named{false};
    std::thread other([&] {
      until([&] { return named.load(); });
      for (int k = 0; k < 20; ++k) {
        auto body = [&ran] { ++ran; };
        auto* r =
            coir::detail::make_record<coir::detail::go_record<decltype(body)>>(body, coir::source_location::current());
        if (name->start(r))
          ++accepted;
        else
          coir::detail::destroy_record(r);
      }
    });
    run([&] {
      name.emplace("test");
      named = true;
    });
    other.join();
    EXPECT_EQ(ran, accepted);
    if (HasFailure()) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Processors, Alarm, coir_test::processors, coir_test::processors_name);

}  // namespace
