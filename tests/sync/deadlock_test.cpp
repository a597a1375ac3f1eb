// Deadlocks in which locks take part. Locking is no cancellation point, but of a certain deadlock it is unwound: those
// that were blocked in a lock when it was found. Whoever has to lock while it unwinds waits, as always.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>

#include <coir/coir.hpp>

#include "coir_test.hpp"

namespace {

using coir_test::expect_throw_message;

class LockDeadlock : public coir_test::with_processors {};

void block_forever() { coir::make_chan<void>().recv(); }

struct at_end {
  std::atomic<int>& count;
  ~at_end() { ++count; }
};

TEST_P(LockDeadlock, OfTwoMutexesTakenInDifferentOrdersIsThrownByRun) {
  std::atomic<int> unwound{0};
  expect_throw_message<coir::deadlock>(
      [&] {
        run([&] {
          coir::mutex a, b;
          coir::latch both(2);
          coir::task<void> other = coir::spawn([&] {
            const at_end counts{unwound};
            const std::scoped_lock first(b);
            both.arrive_and_wait();
            const std::scoped_lock second(a);
          });
          const at_end counts{unwound};
          const std::scoped_lock first(a);
          both.arrive_and_wait();
          const std::scoped_lock second(b);
        });
      },
      "mutex lock");
  EXPECT_EQ(unwound, 2);
}

TEST_P(LockDeadlock, OfOneThatLocksTwiceIsThrownByRun) {
  EXPECT_THROW(run([] {
                 coir::mutex m;
                 m.lock();
                 m.lock();
               }),
               coir::deadlock);
  EXPECT_THROW(run([] {
                 coir::shared_mutex m;
                 const std::shared_lock held(m);
                 const std::scoped_lock again(m);
               }),
               coir::deadlock);
  EXPECT_THROW(run([] {
                 coir::shared_mutex m;
                 const std::scoped_lock held(m);
                 m.lock_shared();
               }),
               coir::deadlock);
  EXPECT_THROW(run([] {
                 coir::mutex m;
                 m.lock();
                 coir::spawn([&]() -> coir::async<void> { co_await m.async_lock(); }).get();
               }),
               coir::deadlock);
}

/// Whose destructor locks.
struct connection {
  std::shared_ptr<coir::mutex> lock;
  std::atomic<int>& closed;
  ~connection() {
    const std::scoped_lock held(*lock);
    ++closed;
  }
};

// Those below are unwound first, and wait; then their spawner, by which they get the lock.
TEST_P(LockDeadlock, DestructorsLockWhatThoseAboveStillHold) {
  std::atomic<int> closed{0};
  EXPECT_THROW(run([&] {
                 const auto lock = std::make_shared<coir::mutex>();
                 for (int i = 0; i < 5; ++i)
                   coir::go([lock, &closed] {
                     const connection open{lock, closed};
                     block_forever();
                   });
                 const std::scoped_lock held(*lock);
                 block_forever();
               }),
               coir::deadlock);
  EXPECT_EQ(closed, 5);
}

TEST_P(LockDeadlock, AConditionWaitLocksAgainWhenTheOwnerHasUnwound) {
  bool held_again = false;
  EXPECT_THROW(run([&] {
                 const auto lock = std::make_shared<coir::mutex>();
                 coir::condition_variable changed;
                 const coir::task<void> waiter = coir::spawn([&] {
                   std::unique_lock held(*lock);
                   try {
                     changed.wait(held);
                   } catch (const coir::cancelled&) {
                     held_again = held.owns_lock();
                     throw;
                   }
                 });
                 coir_test::until_blocked(waiter);
                 const std::scoped_lock held(*lock);
                 block_forever();
               }),
               coir::deadlock);
  EXPECT_TRUE(held_again);
}

// Woken by one that is unwound before it, it waits for a lock when its own turn comes. That wait is not the one that
// was deadlocked.
TEST_P(LockDeadlock, ACoroutineThatHasGoneOnToLockGetsTheLock) {
  std::atomic<bool> locked{false};
  EXPECT_THROW(run([&] {
                 coir::mutex lock;
                 const auto news = coir::make_chan<void>(1);
                 const auto body = [&]() -> coir::async<void> {
                   co_await news.async_recv();
                   co_await lock.async_lock();
                   locked = true;
                   lock.unlock();
                 };
                 const coir::task<void> coroutine = coir::spawn(body());
                 const coir::task<void> owner = coir::spawn([&] {
                   const std::scoped_lock held(lock);
                   try {
                     block_forever();
                   } catch (const coir::cancelled&) {
                     for (int i = 0; i < 1'000; ++i) coir::yield();
                     throw;
                   }
                 });
                 const coir::task<void> above = coir::spawn([&] {
                   const coir::task<void> below = coir::spawn([&] {
                     try {
                       block_forever();
                     } catch (const coir::cancelled&) {
                       static_cast<void>(news.try_send());
                       throw;
                     }
                   });
                   block_forever();
                 });
                 block_forever();
               }),
               coir::deadlock);
  EXPECT_TRUE(locked);
}

// Of which nobody unwinds: the owner has ended without unlocking.
TEST_P(LockDeadlock, AConditionWaitThatCannotLockAgainEndsWithoutTheLock) {
  bool owned = true;
  EXPECT_THROW(run([&] {
                 coir::mutex lock;
                 coir::condition_variable changed;
                 coir::task<void> waiter = coir::spawn([&] {
                   std::unique_lock held(lock);
                   try {
                     changed.wait(held);
                   } catch (const coir::cancelled&) {
                     owned = held.owns_lock();
                     throw;
                   }
                 });
                 coir_test::until_blocked(waiter);
                 lock.lock();
                 waiter.request_stop();
                 waiter.wait();
               }),
               coir::deadlock);
  EXPECT_FALSE(owned);
}

class LockDeadlockDeath : public LockDeadlock {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

// In a destructor nothing may be thrown, and there is nothing else to be done.
TEST_P(LockDeadlockDeath, ThatMeetsADestructorIsReportedBeforeTheProcessEnds) {
  EXPECT_EXIT(run([] {
                std::atomic<int> closed{0};
                const auto lock = std::make_shared<coir::mutex>();
                lock->lock();
                coir::this_fiber::set_name("the careless");
                const connection open{lock, closed};
              }),
              testing::KilledBySignal(SIGABRT),
              "all fibers are asleep - deadlock!\n.*mutex lock(.|\n)*ends the process.*\"the careless\"");
}

TEST_P(LockDeadlockDeath, TheHandlerOfTheProgramIsCalledAfterTheReport) {
  EXPECT_EXIT(
      {
        std::set_terminate([] {
          std::fputs("mine\n", stderr);
          std::_Exit(3);
        });
        run([] {
          std::atomic<int> closed{0};
          const auto lock = std::make_shared<coir::mutex>();
          lock->lock();
          const connection open{lock, closed};
        });
      },
      testing::ExitedWithCode(3), "all fibers are asleep - deadlock!(.|\n)*mine");
}

INSTANTIATE_TEST_SUITE_P(Processors, LockDeadlockDeath, coir_test::processors, coir_test::processors_name);
INSTANTIATE_TEST_SUITE_P(Processors, LockDeadlock, coir_test::processors, coir_test::processors_name);

}  // namespace
