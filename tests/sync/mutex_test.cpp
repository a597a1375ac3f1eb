// coir::mutex: exclusion, order, fairness in time, errors, cancellation, destruction.
#include <coir/mutex.hpp>

#include <memory>
#include <mutex>
#include <vector>

#include <coir/chan.hpp>

#include "actor.hpp"

namespace {

using coir_test::scaled;
using coir_test::until;
using std::chrono::steady_clock;
using sync_test::actor;
using sync_test::both_kinds;
using sync_test::kind;
using namespace std::chrono_literals;

class mutex_test : public coir_test::with_processors {};

TEST_P(mutex_test, TryLockFailsWhileHeldAndSucceedsAfter) {
  run([] {
    for (const kind k : both_kinds) {
      coir::mutex m;
      m.lock();
      actor(k, [&] { EXPECT_FALSE(m.try_lock()) << k; }).join();
      m.unlock();
      actor(k, [&] {
        EXPECT_TRUE(m.try_lock()) << k;
        m.unlock();
      }).join();
    }
  });
}

TEST_P(mutex_test, UnlockOfAnUnlockedMutexIsANamedErrorAndHarmless) {
  run([] {
    coir::mutex m;
    coir_test::expect_throw_message<std::logic_error>([&] { m.unlock(); }, "unlock of an unlocked mutex");
    m.lock();
    m.unlock();
    coir_test::expect_throw_message<std::logic_error>([&] { m.unlock(); }, "unlock of an unlocked mutex");
    EXPECT_TRUE(m.try_lock());
    m.unlock();
  });
}

TEST_P(mutex_test, ExcludesFibersAndThreadsFromOneAnother) {
  run([] {
    coir::mutex m;
    const int rounds = scaled(50'000);
    long sum = 0;
    std::vector<actor> actors;
    for (int i = 0; i < 8; ++i) {
      actors.emplace_back(i < 6 ? kind::fiber : kind::thread, [&] {
        for (int r = 0; r < rounds; ++r) {
          const std::scoped_lock lock(m);
          ++sum;
          if (r % 1024 == 0 && coir::this_fiber::is_fiber()) coir::yield();
        }
      });
    }
    for (actor& a : actors) a.join();
    EXPECT_EQ(sum, 8L * rounds);
  });
}

TEST_P(mutex_test, ServesWaitersInTheOrderInWhichTheyCame) {
  run([] {
    for (const kind k : both_kinds) {
      coir::mutex m;
      std::vector<int> order;
      m.lock();
      std::vector<actor> actors;
      for (int i = 0; i < 5; ++i) {
        actors.emplace_back(k, [&, i] {
          const std::scoped_lock lock(m);
          order.push_back(i);
        });
        actors.back().until_blocked();
      }
      m.unlock();
      for (actor& a : actors) a.join();
      EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4})) << k;
    }
  });
}

TEST_P(mutex_test, UnlockHandsOverToWhoHasWaitedForOverAMillisecond) {
  run([] {
    for (const kind k : both_kinds) {
      coir::mutex m;
      m.lock();
      actor waiter(k, [&] { m.lock(); });
      waiter.until_blocked();
      const auto old = steady_clock::now() + 2ms;
      until([&] { return steady_clock::now() > old; });
      m.unlock();
      EXPECT_FALSE(m.try_lock()) << k;
      waiter.join();
      m.unlock();
    }
  });
}

TEST_P(mutex_test, ANewcomerMayPassAWaiterThatHasNotWaitedLong) {
  run([] {
    // On another processor the waiter may be faster, and on a busy machine each step may take long: until it happens.
    for (bool young_and_passed = false; !young_and_passed;) {
      coir::mutex m;
      m.lock();
      const auto start = steady_clock::now();
      actor waiter(kind::fiber, [&] { m.lock(); });
      waiter.until_blocked();
      m.unlock();
      const bool passed = m.try_lock();
      const bool young = steady_clock::now() - start < 1ms;
      if (passed) m.unlock();
      waiter.join();
      m.unlock();
      young_and_passed = young && passed;
    }
  });
}

TEST_P(mutex_test, AFrequentLockerCannotStarveASleeper) {
  run([] {
    for (const kind k : both_kinds) {
      coir::mutex m;
      std::atomic<bool> served{false};
      m.lock();
      actor sleeper(k, [&] {
        for (int i = 0; i < 3; ++i) {
          m.lock();
          m.unlock();
        }
        served = true;
      });
      sleeper.until_blocked();
      while (!served) {  // never blocks but in lock()
        m.unlock();
        m.lock();
      }
      m.unlock();
      sleeper.join();
    }
  });
}

TEST_P(mutex_test, ABlockedLockIsNotInterrupted) {
  run([] {
    coir::mutex m;
    m.lock();
    bool locked = false;
    coir::task<void> first = coir::spawn([&] {
      m.lock();
      locked = true;
      m.unlock();
      EXPECT_THROW(coir::make_chan<int>().recv(), coir::cancelled);
    });
    coir_test::until_blocked(first);
    actor second(kind::thread, [&] {
      m.lock();
      m.unlock();
    });
    second.until_blocked();
    first.request_stop();
    for (int i = 0; i < 10; ++i) coir::yield();
    EXPECT_EQ(first.status(), coir::task_status::blocked);
    EXPECT_FALSE(locked);
    m.unlock();
    first.get();
    second.join();
    EXPECT_TRUE(locked);
    EXPECT_TRUE(m.try_lock());
    m.unlock();
  });
}

TEST_P(mutex_test, ACancelledFiberLocksAFreeMutexAndWaitsForATakenOne) {
  run([] {
    coir::mutex free, taken;
    taken.lock();
    std::atomic<bool> cancelled{false};
    coir::task<void> t = coir::spawn([&] {
      until([&] { return cancelled.load(); });
      free.lock();
      taken.lock();
    });
    t.request_stop();
    cancelled = true;
    coir_test::until_blocked(t);
    taken.unlock();
    t.get();
    EXPECT_FALSE(free.try_lock());
    EXPECT_FALSE(taken.try_lock());
    free.unlock();
    taken.unlock();
    coir_test::expect_throw_message<std::logic_error>([&] { taken.unlock(); }, "unlocked");
  });
}

TEST_P(mutex_test, MayBeDestroyedByItsLastOwnerAtOnce) {
  run([] {
    for (const kind k : both_kinds) {
      const int rounds = k == kind::fiber ? scaled(20'000) : scaled(500);
      for (int i = 0; i < rounds; ++i) {
        auto m = std::make_unique<coir::mutex>();
        std::atomic<bool> locked{false};
        actor other(k, [&locked, m = m.get()] {
          m->lock();
          locked = true;
          m->unlock();
        });
        until([&] { return locked.load(); });
        m->lock();
        m->unlock();
        m.reset();
        other.join();
      }
    }
  });
}

TEST_P(mutex_test, ScopedLockOfSeveralDoesNotDeadlock) {
  run([] {
    coir::mutex a, b, c;
    const int rounds = scaled(10'000);
    long sum = 0;
    std::vector<actor> actors;
    actors.emplace_back(kind::fiber, [&] {
      for (int r = 0; r < rounds; ++r) {
        const std::scoped_lock lock(a, b, c);
        ++sum;
      }
    });
    actors.emplace_back(kind::fiber, [&] {
      for (int r = 0; r < rounds; ++r) {
        const std::scoped_lock lock(c, b, a);
        ++sum;
      }
    });
    actors.emplace_back(kind::thread, [&] {
      for (int r = 0; r < rounds; ++r) {
        const std::scoped_lock lock(b, c, a);
        ++sum;
      }
    });
    for (actor& x : actors) x.join();
    EXPECT_EQ(sum, 3L * rounds);
  });
}

TEST_P(mutex_test, NoCancellationLosesOrDoublesTheLock) {
  run([] {
    const int rounds = scaled(2'000);
    for (int r = 0; r < rounds; ++r) {
      coir::mutex m;
      int inside = 0;
      std::vector<actor> actors;
      m.lock();
      for (int i = 0; i < 6; ++i) {
        actors.emplace_back(kind::fiber, [&] {
          for (int n = 0; n < 3; ++n) {
            const std::scoped_lock lock(m);
            EXPECT_EQ(++inside, 1);
            if (n == 1) coir::yield();
            --inside;
          }
        });
      }
      coir::yield();
      m.unlock();
      for (std::size_t i = 0; i < actors.size(); i += 2) {
        if (coir::detail::random_bits() % 2 == 0) coir::yield();
        actors[i].cancel();
      }
      for (actor& a : actors) a.join();  // locking is no cancellation point, nor is a yield
      EXPECT_TRUE(m.try_lock());
      m.unlock();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, mutex_test, coir_test::processors, coir_test::processors_name);

}  // namespace
