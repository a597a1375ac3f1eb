// coir::semaphore: order, weights, errors, giving up.
#include <coir/semaphore.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "actor.hpp"

namespace {

using coir_test::scaled;
using std::chrono::steady_clock;
using sync_test::actor;
using sync_test::both_kinds;
using sync_test::kind;
using namespace std::chrono_literals;

class semaphore_test : public coir_test::with_processors {};

TEST_P(semaphore_test, TryAcquireTakesWhatIsThereAndNeverMore) {
  run([] {
    coir::semaphore s(3);
    EXPECT_FALSE(s.locked());
    EXPECT_TRUE(s.try_acquire(2));
    EXPECT_FALSE(s.try_acquire(2));
    EXPECT_FALSE(s.locked());
    EXPECT_TRUE(s.try_acquire());
    EXPECT_TRUE(s.locked());
    EXPECT_FALSE(s.try_acquire());
    EXPECT_TRUE(s.try_acquire(0));
    s.release(3);
    EXPECT_FALSE(s.locked());
    s.acquire(3);
    s.release(3);
  });
}

TEST_P(semaphore_test, AReleaserThatAtOnceAcquiresAgainGoesToTheEndOfTheQueue) {
  run([] {
    for (const kind k : both_kinds) {
      coir::semaphore s(1);
      std::vector<int> order;
      s.acquire();
      std::vector<actor> waiters;
      for (int i = 0; i < 4; ++i) {
        waiters.emplace_back(k, [&, i] {
          s.acquire();
          order.push_back(i);
          s.release();
        });
        waiters.back().until_blocked();
      }
      s.release();
      s.acquire();
      order.push_back(99);
      s.release();
      for (actor& w : waiters) w.join();
      EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 99})) << k;
    }
  });
}

TEST_P(semaphore_test, ALargeRequestIsNotPassedBySmallOnes) {
  run([] {
    coir::semaphore s(4);
    s.acquire(2);
    actor large(kind::fiber, [&] { s.acquire(4); });
    large.until_blocked();
    EXPECT_TRUE(s.locked()) << "a newcomer would have to wait";
    EXPECT_FALSE(s.try_acquire(1));
    EXPECT_FALSE(s.acquire_for(1, 1ms));
    actor small(kind::thread, [&] { s.acquire(1); });
    small.until_blocked();
    s.release(2);
    large.join();
    EXPECT_FALSE(small.ended());
    s.release(4);
    small.join();
    s.release(1);
    EXPECT_TRUE(s.try_acquire(4));
  });
}

TEST_P(semaphore_test, OneReleaseWakesSeveral) {
  run([] {
    for (const kind k : both_kinds) {
      coir::semaphore s(5);
      s.acquire(5);
      std::vector<actor> waiters;
      for (int i = 0; i < 3; ++i) {
        waiters.emplace_back(k, [&, i] { s.acquire(i == 2 ? 2 : 1); });
        waiters.back().until_blocked();
      }
      actor last(k, [&] { s.acquire(3); });
      last.until_blocked();
      s.release(5);
      for (actor& w : waiters) w.join();
      EXPECT_FALSE(last.ended()) << k;
      s.release(2);
      last.join();
      s.release(5);
    }
  });
}

TEST_P(semaphore_test, AWaiterInFrontThatGivesUpLetsThoseBehindItThrough) {
  run([] {
    coir::semaphore s(3);
    s.acquire(1);
    actor victim(kind::fiber, [&] { s.acquire(3); });
    victim.until_blocked();
    std::vector<actor> behind;
    for (const kind k : both_kinds) {
      behind.emplace_back(k, [&] { s.acquire(1); });
      behind.back().until_blocked();
    }
    victim.cancel();
    EXPECT_THROW(victim.join(), coir::task_cancelled);
    for (actor& b : behind) b.join();
    EXPECT_TRUE(s.locked());
    actor impatient(kind::thread, [&] { EXPECT_FALSE(s.acquire_for(3, 100ms)); });
    impatient.until_blocked();
    actor next(kind::fiber, [&] { s.acquire(1); });
    next.until_blocked();
    s.release(1);
    impatient.join();
    next.join();
    s.release(3);
    EXPECT_TRUE(s.try_acquire(3));
  });
}

TEST_P(semaphore_test, AnOversizedRequestIsRefusedAndBlocksNobody) {
  run([] {
    coir::semaphore s(2);
    coir_test::expect_throw_message<std::invalid_argument>([&] { s.acquire(3); }, "3 permits");
    EXPECT_THROW((void)s.try_acquire(3), std::invalid_argument);
    EXPECT_THROW((void)s.acquire_for(3, 1ms), std::invalid_argument);
    EXPECT_THROW(s.acquire(-1), std::invalid_argument);
    EXPECT_THROW(coir::semaphore(-1), std::invalid_argument);
    s.acquire(2);
    s.release(2);
  });
}

TEST_P(semaphore_test, OverReleaseIsANamedErrorAndChangesNothing) {
  run([] {
    coir::semaphore s(2);
    coir_test::expect_throw_message<std::logic_error>([&] { s.release(); }, "released more often");
    s.acquire(1);
    EXPECT_THROW(s.release(2), std::logic_error);
    EXPECT_THROW(s.release(INT64_MAX), std::logic_error);
    EXPECT_THROW(s.release(-1), std::invalid_argument);
    EXPECT_TRUE(s.try_acquire());
    EXPECT_FALSE(s.try_acquire());
    s.release(2);
  });
}

TEST_P(semaphore_test, TimedAcquiresGiveUpAndNeverEarly) {
  run([] {
    for (const kind k : both_kinds) {
      coir::semaphore s(1);
      s.acquire();
      actor(k, [&] {
        const auto start = steady_clock::now();
        EXPECT_FALSE(s.acquire_for(1, 2ms)) << k;
        EXPECT_GE(steady_clock::now() - start, 2ms);
        EXPECT_FALSE(s.acquire_for(0ms));
        EXPECT_FALSE(s.acquire_until(steady_clock::now() - 1h));
      }).join();
      s.release();
      EXPECT_TRUE(s.acquire_for(1, -1h));
      s.release();
    }
  });
}

TEST_P(semaphore_test, ACancelledFiberAcquiresWhatIsFreeAndThrowsWhereItWouldBlock) {
  run([] {
    coir::semaphore s(1);
    std::atomic<bool> cancelled{false};
    bool first = false;
    actor a(kind::fiber, [&] {
      coir_test::until([&] { return cancelled.load(); });
      s.acquire();
      first = true;
      s.acquire();
    });
    a.cancel();
    cancelled = true;
    EXPECT_THROW(a.join(), coir::task_cancelled);
    EXPECT_TRUE(first);
    EXPECT_TRUE(s.locked());
    s.release();
    EXPECT_FALSE(s.locked());
  });
}

// The releaser is then still in release(), where it has found the semaphore contended though nobody waits any more.
TEST_P(semaphore_test, MayBeDestroyedByWhoGotTheLastPermit) {
  run([] {
    for (int r = 0; r < scaled(2'000) + 100; ++r) {
      auto s = std::make_unique<coir::semaphore>(1);
      s->acquire();
      std::atomic<bool> go{false};
      std::thread releaser([&, raw = s.get()] {
        while (!go) std::this_thread::yield();
        raw->release();
      });
      actor impatient(kind::thread, [&] {
        go = true;
        if (s->acquire_for(std::chrono::microseconds(r % 30))) s->release();
      });
      coir_test::until([&] { return impatient.ended(); });
      coir_test::until([&] { return s->try_acquire(); });
      s.reset();
      releaser.join();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, semaphore_test, coir_test::processors, coir_test::processors_name);

}  // namespace
