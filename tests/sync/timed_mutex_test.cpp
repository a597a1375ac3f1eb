// coir::timed_mutex: giving up, and never losing the lock by it.
#include <coir/timed_mutex.hpp>

#include <mutex>
#include <vector>

#include "actor.hpp"

namespace {

using coir_test::scaled;
using std::chrono::steady_clock;
using sync_test::actor;
using sync_test::both_kinds;
using sync_test::kind;
using namespace std::chrono_literals;

class timed_mutex_test : public coir_test::with_processors {};

TEST_P(timed_mutex_test, ATimedLockGivesUpAndNeverEarly) {
  run([] {
    for (const kind k : both_kinds) {
      coir::timed_mutex m;
      m.lock();
      actor(k, [&] {
        const auto start = steady_clock::now();
        EXPECT_FALSE(m.try_lock_for(3ms)) << k;
        EXPECT_GE(steady_clock::now() - start, 3ms);
        EXPECT_FALSE(m.try_lock_for(0ms));
        EXPECT_FALSE(m.try_lock_for(-1h));
        EXPECT_FALSE(m.try_lock_until(steady_clock::now() - 1s));
        EXPECT_FALSE(m.try_lock_until(std::chrono::system_clock::now() + 1ms));
      }).join();
      m.unlock();
      EXPECT_TRUE(m.try_lock_for(-1h));
      m.unlock();
    }
  });
}

TEST_P(timed_mutex_test, ATimedLockIsServedInTime) {
  run([] {
    for (const kind k : both_kinds) {
      coir::timed_mutex m;
      m.lock();
      bool got = false;
      actor waiter(k, [&] {
        std::unique_lock lock(m, std::chrono::hours::max());
        got = lock.owns_lock();
      });
      waiter.until_blocked();
      m.unlock();
      waiter.join();
      EXPECT_TRUE(got) << k;
    }
  });
}

TEST_P(timed_mutex_test, ATimeoutThatRacesAnUnlockDoesNotLoseTheLock) {
  run([] {
    for (const kind k : both_kinds) {
      const int rounds = scaled(1'000);
      int timeouts = 0;
      for (int r = 0; r < rounds; ++r) {
        coir::timed_mutex m;
        m.lock();
        const auto when = steady_clock::now() + std::chrono::microseconds(20 + r % 100);
        bool got = false;
        actor waiter(k, [&] {
          got = m.try_lock_until(when);
          if (got) m.unlock();
        });
        actor behind(kind::fiber, [&] {
          m.lock();
          m.unlock();
        });
        coir_test::until([&] { return steady_clock::now() >= when; });
        m.unlock();
        waiter.join();
        behind.join();
        timeouts += got ? 0 : 1;
        ASSERT_TRUE(m.try_lock()) << "lost in round " << r;
        m.unlock();
      }
      RecordProperty("timeouts", timeouts);
    }
  });
}

TEST_P(timed_mutex_test, TimeoutsAndCancellationsInTurmoilKeepExclusion) {
  run([] {
    coir::timed_mutex m;
    const int rounds = scaled(3'000);
    long plain = 0;
    std::atomic<long> counted{0};
    std::vector<actor> actors;
    for (int i = 0; i < 6; ++i) {
      actors.emplace_back(i < 4 ? kind::fiber : kind::thread, [&] {
        for (int r = 0; r < rounds; ++r) {
          if (!m.try_lock_for(std::chrono::microseconds(coir::detail::random_bits() % 40))) continue;
          ++plain;
          ++counted;
          if (coir::this_fiber::is_fiber() && r % 8 == 0) coir::yield();
          m.unlock();
        }
      });
    }
    actor victim(kind::fiber, [&] {
      for (;;) {
        const std::scoped_lock lock(m);
        ++plain;
        ++counted;
        coir::sleep_for(std::chrono::nanoseconds(1));  // a cancellation point, which locking is not
      }
    });
    for (actor& a : actors) a.join();
    victim.cancel();
    std::vector<actor> lockers;
    for (int i = 0; i < 2; ++i) {
      lockers.emplace_back(kind::fiber, [&] {
        while (!victim.ended()) {
          const std::scoped_lock lock(m);
          coir::yield();
        }
      });
    }
    for (actor& a : lockers) a.join();
    EXPECT_THROW(victim.join(), coir::task_cancelled);
    EXPECT_EQ(plain, counted);
    EXPECT_TRUE(m.try_lock());
    m.unlock();
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, timed_mutex_test, coir_test::processors, coir_test::processors_name);

}  // namespace
