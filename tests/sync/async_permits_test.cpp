// Coroutines among the fibers and threads that wait for permits: semaphore, shared_mutex; and timed_mutex with a time.
#include <coir/async.hpp>
#include <coir/semaphore.hpp>
#include <coir/shared_mutex.hpp>
#include <coir/timed_mutex.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "actor.hpp"
#include "coir_test.hpp"

namespace {

using namespace std::chrono_literals;
using coir::async;
using coir_test::scaled;
using coir_test::until_blocked;
using coir_test::until_blocked_or_ended;
using sync_test::actor;
using sync_test::kind;

class AsyncSemaphore : public coir_test::with_processors {};
class AsyncSharedMutex : public coir_test::with_processors {};
class AsyncTimedMutex : public coir_test::with_processors {};

TEST_P(AsyncSemaphore, IsAcquiredAtOnceOrWhenItsTurnComes) {
  run([] {
    coir::semaphore s(3);
    coir::spawn([&]() -> async<void> { co_await s.async_acquire(2); }).get();
    coir::task<void> t = coir::spawn([&]() -> async<void> { co_await s.async_acquire(3); });
    until_blocked(t);
    EXPECT_FALSE(s.try_acquire()) << "nobody passes who waits";
    s.release(2);
    t.get();
    EXPECT_FALSE(s.try_acquire());
    s.release(3);
    EXPECT_TRUE(s.try_acquire(3));
  });
}

TEST_P(AsyncSemaphore, CoroutinesFibersAndThreadsAreServedInOneOrder) {
  run([] {
    coir::semaphore s(1);
    s.acquire();
    std::vector<int> order;  // guarded by the one permit
    std::vector<coir::task<void>> coroutines;
    std::vector<actor> others;
    for (int i = 0; i < 9; ++i) {
      const auto blocking = [&, i] {
        s.acquire();
        order.push_back(i);
        s.release();
      };
      if (i % 3 == 0) {
        coroutines.push_back(coir::spawn([&, i]() -> async<void> {
          co_await s.async_acquire();
          order.push_back(i);
          s.release();
        }));
        until_blocked(coroutines.back());
      } else {
        others.emplace_back(i % 3 == 1 ? kind::fiber : kind::thread, blocking);
        others.back().until_blocked();
      }
    }
    s.release();
    for (auto& t : coroutines) t.get();
    for (actor& a : others) a.join();
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  });
}

TEST_P(AsyncSemaphore, OneThatIsCancelledLetsThoseBehindItThrough) {
  run([] {
    coir::semaphore s(3);
    s.acquire();
    bool told = false;
    coir::task<void> large = coir::spawn([&]() -> async<void> {
      try {
        co_await s.async_acquire(3);
      } catch (const coir::cancelled&) {
        told = true;
        throw;
      }
    });
    until_blocked(large);
    coir::task<void> small = coir::spawn([&]() -> async<void> { co_await s.async_acquire(); });
    until_blocked(small);
    actor fiber(kind::fiber, [&] { s.acquire(); });
    fiber.until_blocked();
    large.request_stop();
    EXPECT_THROW(large.get(), coir::task_cancelled);
    EXPECT_TRUE(told);
    small.get();
    fiber.join();
    s.release(3);
    EXPECT_TRUE(s.try_acquire(3));
  });
}

TEST_P(AsyncSemaphore, OneThatWasCancelledBeforeItWaitsIsToldAtOnceButTakesWhatIsThere) {
  run([] {
    coir::semaphore s(1), gate(1);
    gate.acquire();
    int had = 0;
    coir::task<void> t = coir::spawn([&]() -> async<void> {
      {
        const coir::uncancellable guard;
        co_await gate.async_acquire();
      }
      co_await s.async_acquire();
      ++had;
      co_await s.async_acquire();
      ++had;
    });
    until_blocked(t);
    t.request_stop();
    gate.release();
    EXPECT_THROW(t.get(), coir::task_cancelled);
    EXPECT_EQ(had, 1);
    s.release();
    EXPECT_TRUE(s.try_acquire());
  });
}

TEST_P(AsyncSemaphore, ATimeEndsAWaitAndOneThatIsServedBeforeHasItsPermits) {
  run([] {
    coir::semaphore s(2);
    s.acquire(2);
    coir::spawn([&]() -> async<void> {
      const auto begin = std::chrono::steady_clock::now();
      const bool had = co_await s.async_acquire_for(2, 5ms);
      EXPECT_FALSE(had);
      EXPECT_GE(std::chrono::steady_clock::now() - begin, 5ms);
      const bool again = co_await s.async_acquire_for(0s);
      EXPECT_FALSE(again);
      const bool past = co_await s.async_acquire_until(std::chrono::steady_clock::now() - 1s);
      EXPECT_FALSE(past);
    }).get();
    coir::task<bool> patient = coir::spawn([&]() -> async<bool> { co_return co_await s.async_acquire_for(1h); });
    until_blocked(patient);
    s.release();
    EXPECT_TRUE(patient.get());
    s.release(2);
    coir::spawn([&]() -> async<void> {
      const bool at_once = co_await s.async_acquire_for(2, 0s);
      EXPECT_TRUE(at_once) << "what is there is taken though the time is over";
    }).get();
    s.release(2);
    EXPECT_TRUE(s.try_acquire(2));
  });
}

TEST_P(AsyncSemaphore, OneThatGivesUpInFrontLetsThoseBehindItThrough) {
  run([] {
    coir::semaphore s(2);
    s.acquire();
    coir::task<bool> large = coir::spawn([&]() -> async<bool> { co_return co_await s.async_acquire_for(2, 100ms); });
    until_blocked_or_ended(large);
    coir::task<void> small = coir::spawn([&]() -> async<void> { co_await s.async_acquire(); });
    EXPECT_FALSE(large.get());
    small.get();
    s.release(2);
    EXPECT_TRUE(s.try_acquire(2));
  });
}

TEST_P(AsyncSemaphore, WhatCannotBeIsRefusedAsAlways) {
  run([] {
    coir::semaphore s(2);
    EXPECT_THROW((void)s.async_acquire(3), std::invalid_argument);
    EXPECT_THROW((void)s.async_acquire_for(-1, 1ms), std::invalid_argument);
    coir::spawn([&]() -> async<void> {
      auto acquire = s.async_acquire();
      co_await acquire;
      bool refused = false;
      try {
        co_await acquire;
      } catch (const std::logic_error&) {
        refused = true;
      }
      EXPECT_TRUE(refused);
    }).get();
    s.release();
  });
}

TEST_P(AsyncSemaphore, ADeadlockSaysWhatItWaitsOn) {
  coir_test::expect_throw_message<coir::deadlock>(
      [&] {
        coir::semaphore s(1);
        run([&] {
          coir::go([&]() -> async<void> {
            co_await s.async_acquire();
            co_await s.async_acquire();
          });
        });
      },
      ": semaphore acquire 0x");
}

// Each permit is a tag, of which a holder has so many as it has acquired; whoever comes to hold one that another has
// would see it. Waiters time out, are cancelled, and are served, all at the same moments.
TEST_P(AsyncSemaphore, NoPermitIsLostOrDoubledUnderTimeoutsAndCancellations) {
  run([] {
    static constexpr int permits = 4;
    coir::semaphore s(permits);
    std::atomic<int> out{0};
    const auto hold = [&out](int n) {
      EXPECT_LE(out.fetch_add(n) + n, permits);
      coir::yield();
      out.fetch_sub(n);
    };
    const auto coroutine = [&s, &hold](int seed, int rounds) -> async<void> {
      for (int i = 0; i < rounds; ++i) {
        const int n = 1 + (seed + i) % 3;
        if ((seed + i) % 2 == 0) {
          co_await s.async_acquire(n);
        } else {
          const bool had = co_await s.async_acquire_for(n, std::chrono::microseconds((seed * 7 + i) % 40));
          if (!had) continue;
        }
        hold(n);
        s.release(n);
      }
    };
    const auto fiber = [&s, &hold](int seed, int rounds) {
      for (int i = 0; i < rounds; ++i) {
        const int n = 1 + (seed + i) % 2;
        if ((seed + i) % 3 != 0)
          s.acquire(n);
        else if (!s.acquire_for(n, std::chrono::microseconds((seed * 5 + i) % 40)))
          continue;
        hold(n);
        s.release(n);
      }
    };
    std::vector<coir::task<void>> all;
    const int rounds = scaled(3'000);
    for (int i = 0; i < 4; ++i) {
      all.push_back(coir::spawn(coroutine(i, rounds)));
      all.push_back(coir::spawn([&, i] { fiber(i, rounds); }));
    }
    for (int i = 0; i < scaled(2'000); ++i) {
      coir::task<void> victim = i % 2 == 0 ? coir::spawn(coroutine(i, 3)) : coir::spawn([&fiber, i] { fiber(i, 3); });
      for (int k = i % 5; k > 0; --k) coir::yield();
      victim.request_stop();
      try {
        victim.get();
      } catch (const coir::task_cancelled&) {
      }
    }
    for (auto& t : all) t.get();
    EXPECT_EQ(out, 0);
    EXPECT_TRUE(s.try_acquire(permits)) << "a permit was lost";
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, AsyncSemaphore, coir_test::processors, coir_test::processors_name);

// ---- shared_mutex --------------------------------------------------------------------------------------------------

TEST_P(AsyncSharedMutex, KeepsWritersFromReadersOfAllKinds) {
  run([] {
    coir::shared_mutex m;
    int first = 0, second = 0;  // equal while nobody writes
    const int rounds = scaled(3'000);
    std::vector<coir::task<void>> all;
    for (int i = 0; i < 3; ++i) {
      all.push_back(coir::spawn([&]() -> async<void> {
        for (int k = 0; k < rounds; ++k) {
          co_await m.async_lock();
          const std::unique_lock held(m, std::adopt_lock);
          ++first;
          ++second;
        }
      }));
      all.push_back(coir::spawn([&]() -> async<void> {
        for (int k = 0; k < rounds; ++k) {
          co_await m.async_lock_shared();
          const std::shared_lock held(m, std::adopt_lock);
          EXPECT_EQ(first, second);
        }
      }));
      all.push_back(coir::spawn([&] {
        for (int k = 0; k < rounds; ++k) {
          if (k % 4 == 0) {
            const std::scoped_lock held(m);
            ++first;
            ++second;
          } else {
            const std::shared_lock held(m);
            EXPECT_EQ(first, second);
          }
        }
      }));
    }
    for (auto& t : all) t.get();
    EXPECT_EQ(first, 3 * (rounds + (rounds + 3) / 4));
    EXPECT_TRUE(m.try_lock());
    m.unlock();
  });
}

TEST_P(AsyncSharedMutex, AWriterThatWaitsHoldsOffReadersAndNeighbouringReadersGoTogether) {
  run([] {
    coir::shared_mutex m;
    m.lock_shared();
    coir::task<void> writer = coir::spawn([&]() -> async<void> { co_await m.async_lock(); });
    until_blocked(writer);
    EXPECT_FALSE(m.try_lock_shared());
    std::vector<coir::task<void>> readers;
    for (int i = 0; i < 2; ++i) {
      readers.push_back(coir::spawn([&]() -> async<void> { co_await m.async_lock_shared(); }));
      until_blocked(readers.back());
    }
    actor fiber(kind::fiber, [&] { m.lock_shared(); });
    fiber.until_blocked();
    m.unlock_shared();
    writer.get();
    for (const auto& r : readers) EXPECT_FALSE(r.ready());
    m.unlock();
    for (auto& r : readers) r.get();
    fiber.join();
    EXPECT_FALSE(m.try_lock());
    for (int i = 0; i < 3; ++i) m.unlock_shared();
    EXPECT_TRUE(m.try_lock());
    m.unlock();
  });
}

TEST_P(AsyncSharedMutex, ATimeEndsAWaitForIt) {
  run([] {
    coir::shared_mutex m;
    m.lock();
    coir::spawn([&]() -> async<void> {
      const bool exclusively = co_await m.async_try_lock_for(2ms);
      EXPECT_FALSE(exclusively);
      const bool shared = co_await m.async_try_lock_shared_until(std::chrono::steady_clock::now() + 2ms);
      EXPECT_FALSE(shared);
    }).get();
    coir::task<bool> t = coir::spawn([&]() -> async<bool> { co_return co_await m.async_try_lock_shared_for(1h); });
    until_blocked(t);
    m.unlock();
    EXPECT_TRUE(t.get());
    m.unlock_shared();
  });
}

TEST_P(AsyncSharedMutex, LockingIsNoCancellationPoint) {
  run([] {
    coir::shared_mutex m;
    m.lock();
    bool locked = false;
    coir::task<void> t = coir::spawn([&]() -> async<void> {
      co_await m.async_lock_shared();
      locked = true;
      m.unlock_shared();
      co_await coir::async_sleep(1h);
    });
    until_blocked(t);
    t.request_stop();
    for (int i = 0; i < 10; ++i) coir::yield();
    EXPECT_EQ(t.status(), coir::task_status::blocked);
    m.unlock();
    EXPECT_THROW(t.get(), coir::task_cancelled);
    EXPECT_TRUE(locked);
    EXPECT_TRUE(m.try_lock());
    m.unlock();
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, AsyncSharedMutex, coir_test::processors, coir_test::processors_name);

// ---- timed_mutex ---------------------------------------------------------------------------------------------------

TEST_P(AsyncTimedMutex, ATimeEndsAWaitForIt) {
  run([] {
    coir::timed_mutex m;
    m.lock();
    coir::spawn([&]() -> async<void> {
      const bool had = co_await m.async_try_lock_for(2ms);
      EXPECT_FALSE(had);
      const bool past = co_await m.async_try_lock_until(std::chrono::steady_clock::now());
      EXPECT_FALSE(past);
    }).get();
    coir::task<bool> t = coir::spawn([&]() -> async<bool> { co_return co_await m.async_try_lock_for(1h); });
    until_blocked(t);
    m.unlock();
    EXPECT_TRUE(t.get());
    EXPECT_FALSE(m.try_lock());
    m.unlock();
    EXPECT_TRUE(m.try_lock());
    m.unlock();
  });
}

TEST_P(AsyncTimedMutex, NoLockIsLostUnderTimeouts) {
  run([] {
    coir::timed_mutex m;
    int counter = 0;  // guarded by the lock
    std::atomic<int> expected{0};
    std::vector<coir::task<void>> all;
    for (int i = 0; i < 4; ++i) {
      all.push_back(coir::spawn([&, i]() -> async<void> {
        for (int k = 0; k < scaled(3'000); ++k) {
          const bool had = co_await m.async_try_lock_for(std::chrono::microseconds((i + k) % 30));
          if (!had) continue;
          ++counter;
          ++expected;
          if (k % 8 == 0) coir::yield();
          m.unlock();
        }
      }));
      all.push_back(coir::spawn([&, i] {
        for (int k = 0; k < scaled(3'000); ++k) {
          if (!m.try_lock_for(std::chrono::microseconds((i + k) % 30))) continue;
          ++counter;
          ++expected;
          if (k % 8 == 0) coir::yield();
          m.unlock();
        }
      }));
    }
    for (auto& t : all) t.get();
    EXPECT_TRUE(m.try_lock());
    EXPECT_EQ(counter, expected);
    m.unlock();
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, AsyncTimedMutex, coir_test::processors, coir_test::processors_name);

}  // namespace
