// COIR_DEBUG=heldlock=1: a lock of the operating system that a fiber holds when it parks, yields or ends is reported;
// one that it has unlocked before is not, nor what is locked outside of fibers.
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <thread>

#include <coir/coir.hpp>
#include <coir/detail/park.hpp>

#include "coir_test.hpp"
#include "stderr_capture.hpp"

namespace {

// One for each test and form, since each place is reported once in a process.
template <class Lock>
[[gnu::noinline]] void lock_it(Lock& lock) {
  lock.lock();
  asm volatile("" ::: "memory");
}

class HeldLocks : public coir_test::with_processors {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    ::setenv("COIR_DEBUG", "heldlock=1", 1);
  }
  ~HeldLocks() override { ::unsetenv("COIR_DEBUG"); }

  /// What is written while f runs in a fiber called "holder", in a process of its own.
  template <class F>
  void expect(F f, const std::string& report) const {
    const auto alone = [&] {
      run([&] {
        coir::spawn([&] {
          coir::this_fiber::set_name("holder");
          f();
        }).get();
      });
      std::exit(0);
    };
    EXPECT_EXIT(alone(), testing::ExitedWithCode(0), report);
  }
};

/// Parks for certain: the other fiber waits until it has.
void park() {
  const auto ch = coir::make_chan<void>();
  const coir::detail::waiter& self = coir::detail::this_waiter();
  coir::task<void> other = coir::spawn([&self, ch] {
    coir_test::until([&] { return (self.word() & coir::detail::waiter::state_mask) == coir::detail::waiter::waiting; });
    ch.send();
  });
  ch.recv();
}

const std::string who = "coir: fiber [0-9]+ \"holder\", spawned at .*held_locks_test.cpp:[0-9]+, ";
const std::string which =
    " while it holds a lock of the operating system .0x[0-9a-f]+., locked in\n.*\\[0x[0-9a-f]+\\]\n";
const std::string and_now = "coir: it is in\n.*\\[0x[0-9a-f]+\\]\n";

TEST_P(HeldLocks, AMutexHeldAcrossAParkIsReported) {
  expect(
      [] {
        std::mutex m;
        lock_it(m);
        park();
        m.unlock();
      },
      who + "parks in chan receive" + which);
}

TEST_P(HeldLocks, TheReportTellsWhereItIsLockedAndWhereItParks) {
  expect(
      [] {
        std::mutex m;
        lock_it(m);
        park();
        m.unlock();
      },
      which + "(.*\n)*" + and_now);
}

TEST_P(HeldLocks, ARecursiveOneUntilItIsUnlockedAsOften) {
  expect(
      [] {
        std::recursive_mutex m;
        lock_it(m);
        m.lock();
        m.unlock();
        park();
        m.unlock();
      },
      who + "parks in chan receive" + which);
}

TEST_P(HeldLocks, AReadWriteLockAndOneThatWasTried) {
  expect(
      [] {
        std::shared_mutex m;
        m.lock_shared();
        park();
        m.unlock_shared();
      },
      who + "parks in chan receive" + which);
  expect(
      [] {
        std::mutex m;
        if (!m.try_lock()) std::abort();
        park();
        m.unlock();
      },
      who + "parks in chan receive" + which);
}

TEST_P(HeldLocks, AtAYieldThatLetsAnotherRun) {
  expect(
      [] {
        coir::task<void> other = coir::spawn([] {});
        std::mutex m;
        lock_it(m);
        while (!other.ready()) coir::yield();
        m.unlock();
      },
      // With more of them, another may have run it before.
      GetParam() == 1 ? who + "gives its processor to others" + which : "");
}

TEST_P(HeldLocks, ByAFiberThatEnds) {
  expect(
      [] {
        static std::mutex m;
        lock_it(m);
      },
      who + "ends" + which);
}

TEST_P(HeldLocks, OnceForAPlace) {
  expect(
      [] {
        coir_test::stderr_capture err;
        for (int i = 0; i < 10; ++i) {
          std::mutex m;
          lock_it(m);
          park();
          m.unlock();
        }
        if (err.count("parks in chan receive while") != 1) std::_Exit(1);
      },
      "^$");
}

TEST_P(HeldLocks, WhatIsUnlockedBeforeIsNotReported) {
  expect(
      [] {
        std::mutex m;
        std::recursive_mutex r;
        std::shared_mutex s;
        for (int i = 0; i < 100; ++i) {
          {
            const std::scoped_lock held(m, r);
            const std::lock_guard again(r);
          }
          {
            const std::shared_lock shared(s);
          }
          {
            const std::unique_lock exclusive(s);
          }
          park();
          coir::yield();
        }
      },
      "^$");
}

TEST_P(HeldLocks, LocksOfCoirsOwnAreNot) {
  expect(
      [] {
        coir::mutex m;
        const std::lock_guard held(m);
        park();
      },
      "^$");
}

// A condition variable of the operating system unlocks while it waits, blocking the thread.
TEST_P(HeldLocks, AWaitForAConditionVariableOfTheSystemIsNot) {
  expect(
      [] {
        std::mutex m;
        std::condition_variable changed;
        bool ready = false;
        std::thread other([&] {
          const std::lock_guard held(m);
          ready = true;
          changed.notify_one();
        });
        {
          std::unique_lock lock(m);
          changed.wait(lock, [&] { return ready; });
        }
        park();
        other.join();
      },
      "^$");
}

TEST_P(HeldLocks, WhatIsLockedAndUnlockedInABlockingSectionIsNot) {
  expect(
      [] {
        std::mutex m;
        for (int i = 0; i < 10; ++i) coir::blocking([&] { const std::lock_guard held(m); });
      },
      "^$");
}

// The thread's own lock, held while it waits for the fibers.
TEST_P(HeldLocks, WhatAPlainThreadHoldsIsNot) {
  const auto alone = [&] {
    std::mutex m;
    const std::lock_guard held(m);
    run([] { park(); });
    std::exit(0);
  };
  EXPECT_EXIT(alone(), testing::ExitedWithCode(0), "^$");
}

INSTANTIATE_TEST_SUITE_P(Processors, HeldLocks, coir_test::processors, coir_test::processors_name);

}  // namespace
