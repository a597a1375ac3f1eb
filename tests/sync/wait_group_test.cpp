// coir::wait_group, and coir::latch, which is made of the same count.
#include <coir/wait_group.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <coir/error.hpp>
#include <coir/latch.hpp>
#include <coir/mutex.hpp>

#include "actor.hpp"

namespace {

using coir_test::scaled;
using sync_test::actor;
using sync_test::both_kinds;
using sync_test::kind;

class wait_group_test : public coir_test::with_processors {};
class latch_test : public coir_test::with_processors {};

TEST_P(wait_group_test, WaitReturnsAtOnceWhenNothingIsCounted) {
  run([] {
    coir::wait_group g;
    g.wait();
    g.add(0);
    g.wait();
    g.add(2);
    g.done();
    g.done();
    g.wait();
  });
}

TEST_P(wait_group_test, WaitReturnsOnlyAtZeroAndEveryWaiterIsWoken) {
  run([] {
    for (const kind k : both_kinds) {
      coir::wait_group g;
      g.add(3);
      std::atomic<bool> zero{false};
      std::vector<actor> waiters;
      for (int i = 0; i < 4; ++i) {
        waiters.emplace_back(k, [&] {
          g.wait();
          EXPECT_TRUE(zero.load());
        });
      }
      for (actor& w : waiters) w.until_blocked();
      g.done();
      g.done();
      for (actor& w : waiters) EXPECT_FALSE(w.ended()) << k;
      zero = true;
      g.done();
      for (actor& w : waiters) w.join();
    }
  });
}

TEST_P(wait_group_test, IsReusableManyTimes) {
  run([] {
    coir::wait_group g;
    const int rounds = scaled(5'000);
    long sum = 0;
    for (int r = 0; r < rounds; ++r) {
      long parts[3] = {};
      for (long& part : parts) {
        g.go([&part] { part = 1; });
      }
      g.wait();
      for (const long part : parts) sum += part;
    }
    EXPECT_EQ(sum, 3L * rounds);
  });
}

TEST_P(wait_group_test, ANegativeCountIsANamedErrorAndChangesNothing) {
  run([] {
    coir::wait_group g;
    coir_test::expect_throw_message<std::logic_error>([&] { g.done(); }, "negative wait_group");
    g.wait();
    g.add(2);
    coir_test::expect_throw_message<std::logic_error>([&] { g.add(-3); }, "negative wait_group");
    coir_test::expect_throw_message<std::logic_error>([&] { g.add(INT64_MIN); }, "negative wait_group");
    actor waiter(kind::fiber, [&] { g.wait(); });
    waiter.until_blocked();
    coir_test::expect_throw_message<std::logic_error>([&] { g.add(-3); }, "negative wait_group");
    EXPECT_FALSE(waiter.ended());
    g.add(-2);
    waiter.join();
    g.wait();
  });
}

TEST_P(wait_group_test, TooLargeACountIsRefused) {
  run([] {
    coir::wait_group g;
    g.add(1);
    EXPECT_THROW(g.add(INT64_MAX), std::length_error);
    g.done();
    g.wait();
  });
}

TEST_P(wait_group_test, GoCountsUntilTheFunctionAndItsCapturesAreGone) {
  run([] {
    const int rounds = scaled(2'000);
    for (int r = 0; r < rounds; ++r) {
      auto token = std::make_shared<int>(7);
      coir::wait_group g;
      for (int i = 0; i < 3; ++i) g.go([token] { EXPECT_EQ(*token, 7); });
      g.wait();
      EXPECT_EQ(token.use_count(), 1);
    }
  });
}

TEST_P(wait_group_test, AFiberThatEndsByCancellationIsDone) {
  run([] {
    coir::wait_group g;
    g.go([] { throw coir::cancelled(); });
    g.wait();
  });
}

TEST_P(wait_group_test, MayBeDestroyedAsSoonAsWaitReturns) {
  run([] {
    for (const kind k : both_kinds) {
      const int rounds = k == kind::fiber ? scaled(20'000) : scaled(500);
      for (int r = 0; r < rounds; ++r) {
        auto g = std::make_unique<coir::wait_group>();
        g->add(2);
        const auto finish = [g = g.get()] { g->done(); };
        actor a(k, finish), b(k, finish);
        g->wait();
        g.reset();
        a.join();
        b.join();
      }
    }
  });
}

TEST_P(wait_group_test, MayBeDestroyedByACancelledWaiterThatIsTheLast) {
  run([] {
    const int rounds = scaled(10'000);
    for (int r = 0; r < rounds; ++r) {
      auto g = std::make_unique<coir::wait_group>();
      g->add(1);
      // The last to know of the group: it destroys it once it sees the done, which may be still under way.
      actor waiter(kind::fiber, [&] {
        try {
          g->wait();
        } catch (const coir::cancelled&) {
          const coir::uncancellable clean_up;
          g->wait();
        }
        g.reset();
      });
      if (r % 2 == 0) waiter.until_blocked();
      actor worker(r % 4 == 0 ? kind::thread : kind::fiber, [raw = g.get()] { raw->done(); });
      waiter.cancel();
      waiter.join();
      worker.join();
    }
  });
}

TEST_P(wait_group_test, ACancelledWaitThrowsAndLeavesTheOthersWaiting) {
  run([] {
    coir::wait_group g;
    g.add(1);
    actor cancelled(kind::fiber, [&] { g.wait(); });
    cancelled.until_blocked();
    actor other(kind::thread, [&] { g.wait(); });
    other.until_blocked();
    cancelled.cancel();
    EXPECT_THROW(cancelled.join(), coir::task_cancelled);
    EXPECT_FALSE(other.ended());
    g.done();
    other.join();
    g.wait();
  });
}

TEST_P(wait_group_test, WhatCameBeforeDoneIsSeenAfterWait) {
  run([] {
    const int rounds = scaled(2'000);
    for (int r = 0; r < rounds; ++r) {
      coir::wait_group g;
      int written[4] = {};  // plain: ThreadSanitizer watches
      for (int& w : written) {
        g.go([&w] { w = 1; });
      }
      actor second_waiter(kind::fiber, [&] {
        g.wait();
        for (const int w : written) EXPECT_EQ(w, 1);
      });
      g.wait();
      for (const int w : written) EXPECT_EQ(w, 1);
      second_waiter.join();
    }
  });
}

TEST_P(wait_group_test, CountsFromManySidesAtOnce) {
  run([] {
    coir::wait_group g;
    const int rounds = scaled(20'000);
    std::atomic<long> finished{0};
    std::vector<actor> actors;
    g.add(1);
    for (int i = 0; i < 4; ++i) {
      actors.emplace_back(i % 2 == 0 ? kind::fiber : kind::thread, [&] {
        for (int r = 0; r < rounds; ++r) {
          g.add(2);
          finished += 1;
          g.done();
          g.done();
        }
      });
    }
    for (actor& a : actors) a.join();
    g.done();
    g.wait();
    EXPECT_EQ(finished, 4L * rounds);
  });
}

TEST_P(latch_test, OpensAtZeroAndStaysOpen) {
  run([] {
    for (const kind k : both_kinds) {
      coir::latch l(3);
      EXPECT_FALSE(l.try_wait());
      actor waiter(k, [&] { l.arrive_and_wait(); });
      waiter.until_blocked();
      l.count_down(0);
      l.count_down();
      EXPECT_FALSE(l.try_wait());
      l.count_down();
      EXPECT_TRUE(l.try_wait());
      waiter.join();
      l.wait();
    }
  });
}

TEST_P(latch_test, RefusesCountsThatMakeNoSense) {
  run([] {
    EXPECT_THROW(coir::latch(-1), std::invalid_argument);
    coir::latch l(1);
    EXPECT_THROW(l.count_down(-1), std::invalid_argument);
    coir_test::expect_throw_message<std::logic_error>([&] { l.count_down(2); }, "negative latch");
    EXPECT_FALSE(l.try_wait());
    l.count_down();
    l.wait();
    coir::latch(0).wait();
  });
}

TEST_P(latch_test, MayBeDestroyedAsSoonAsWaitReturns) {
  run([] {
    const int rounds = scaled(10'000);
    for (int r = 0; r < rounds; ++r) {
      auto l = std::make_unique<coir::latch>(3);
      const auto arrive = [l = l.get()] { l->count_down(); };
      actor a(kind::fiber, arrive), b(kind::fiber, arrive);
      l->arrive_and_wait();
      l.reset();
      a.join();
      b.join();
    }
  });
}

TEST_P(wait_group_test, ADeadlockLeavesWhatTheChildrenUseUntilTheyHaveEnded) {
  for (int i = 0; i < scaled(20); ++i) {
    EXPECT_THROW(run([] {
                   coir::mutex m;
                   coir::wait_group g;
                   m.lock();
                   for (int k = 0; k < 3; ++k) g.go([&] { const std::scoped_lock locked(m); });
                   g.wait();
                 }),
                 coir::deadlock);
  }
}

/// Captured as a constant it can only be copied. Takes its time to go.
struct slow_to_go {
  explicit slow_to_go(std::atomic<int>& n) : alive(n) { ++alive; }
  slow_to_go(const slow_to_go& other) : alive(other.alive) { ++alive; }
  ~slow_to_go() {
    coir::yield();
    --alive;
  }
  slow_to_go& operator=(const slow_to_go&) = delete;
  std::atomic<int>& alive;
};

TEST_P(wait_group_test, WhatAFiberCapturedIsDestroyedBeforeItCountsAsDone) {
  run([] {
    for (int i = 0; i < scaled(200); ++i) {
      std::atomic<int> alive{0};
      coir::wait_group g;
      const slow_to_go captured(alive);
      for (int k = 0; k < 4; ++k) {
        g.go([captured, throws = k == 0] {
          EXPECT_GT(captured.alive, 0);
          if (throws) throw coir::cancelled();
        });
      }
      g.wait();
      EXPECT_EQ(alive, 1);
    }
  });
}

TEST_P(wait_group_test, NoNumberIsTooSmallToBeRefused) {
  coir::wait_group g;
  g.add(coir::detail::countdown::max);
  EXPECT_THROW(g.add(INT64_MIN), std::logic_error);
  EXPECT_THROW(g.add(INT64_MIN + 1), std::logic_error);
  g.add(-coir::detail::countdown::max);
  g.wait();
}

TEST_P(wait_group_test, AMistakenDoneHitsNobodyElse) {
  coir::wait_group g;
  std::atomic<bool> begun{false}, end{false};
  std::thread mistaken([&] {
    while (!end) {
      EXPECT_THROW(g.add(-2), std::logic_error);
      begun = true;
    }
  });
  run([&] {
    while (!begun) coir::yield();
    for (int i = 0; i < scaled(200'000); ++i) {
      g.add(1);
      g.done();
    }
    end = true;
    g.wait();
  });
  mistaken.join();
}

TEST_P(latch_test, WhoArrivesLastDoesNotTouchItAgain) {
  run([] {
    for (int i = 0; i < scaled(5000); ++i) {
      auto l = std::make_unique<coir::latch>(2);
      coir::latch* const shared = l.get();
      coir::task<void> other = coir::spawn([shared] { shared->arrive_and_wait(); });
      shared->count_down();
      while (!shared->try_wait()) coir::yield();
      l.reset();  // while the other may still be on its way out
      other.get();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, wait_group_test, coir_test::processors, coir_test::processors_name);
INSTANTIATE_TEST_SUITE_P(Processors, latch_test, coir_test::processors, coir_test::processors_name);

}  // namespace
