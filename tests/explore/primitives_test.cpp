// coir's own primitives under exploration, with their invariants; and weakened copies of two of them, whose faults must
// be found, so that the explorations are known to look.
#include <coir/explore.hpp>

#include <atomic>
#include <chrono>
#include <mutex>
#include <stdexcept>

#include <gtest/gtest.h>

#include <coir/coir.hpp>
#include <coir/detail/decision.hpp>
#include <coir/detail/queued_wait.hpp>

using namespace std::chrono_literals;
using coir::failure_kind;

namespace {

const coir::explore_options some{.schedules = 1000, .strategy = coir::pct(3)};

// ---- the originals -------------------------------------------------------------------------------------------------

/// Two who acquire, one of whom is cancelled meanwhile; then all permits must be there.
template <class Semaphore>
void cancel_an_acquire() {
  Semaphore permits(1);
  coir::mutex used;
  const auto use = [&] {
    permits.acquire();
    {
      const std::scoped_lock held(used);  // others may go first here
    }
    permits.release();
  };
  auto first = coir::spawn(use);
  auto cancelled = coir::spawn(use);
  auto last = coir::spawn(use);
  cancelled.request_stop();
  first.get();
  last.get();
  try {
    cancelled.get();
  } catch (const coir::task_cancelled&) {
  }
  EXPECT_TRUE(permits.try_acquire()) << "a permit is lost";
}

TEST(ExplorePrimitives, ASemaphoreKeepsItsPermits) {
  const coir::exploration e = coir::explore(some, cancel_an_acquire<coir::semaphore>);
  EXPECT_TRUE(e) << e;
}

TEST(ExplorePrimitives, SingleFlightRunsOnceAtATime) {
  const coir::exploration e = coir::explore(some, [] {
    coir::single_flight<int, int> flights;
    int running = 0;
    const auto run = [&] {
      const int value = flights.run(1, [&] {
        EXPECT_EQ(++running, 1);
        coir::yield();
        --running;
        return 7;
      });
      EXPECT_EQ(value, 7);
    };
    auto a = coir::spawn(run);
    auto b = coir::spawn(run);
    run();
    a.get();
    b.get();
  });
  EXPECT_TRUE(e) << e;
}

TEST(ExplorePrimitives, NoChildOutlivesItsGroup) {
  const coir::exploration e = coir::explore(some, [] {
    std::atomic<int> alive = 0;
    const auto child = [&] {
      struct counted {
        std::atomic<int>& n;
        explicit counted(std::atomic<int>& of) : n(of) { ++n; }
        ~counted() { --n; }
      } const self(alive);
      coir::sleep_for(1s);
    };
    try {
      coir::task_group group;
      group.spawn(child);
      group.spawn([] { throw std::runtime_error("fails"); });
      group.spawn(child);
      group.wait();
      ADD_FAILURE() << "the group has failed";
    } catch (const std::runtime_error&) {
    }
    EXPECT_EQ(alive, 0);
  });
  EXPECT_TRUE(e) << e;
}

TEST(ExplorePrimitives, ATimeoutAndAValueOfOneInstantLoseNothing) {
  const coir::exploration e = coir::explore(some, [] {
    auto ch = coir::make_chan<int>(1);
    coir::go([ch] {
      coir::sleep_for(10ms);
      ch.send(1);
    });
    bool received = false;
    try {
      coir::timeout(10ms, [&] { received = ch.recv().has_value(); });
    } catch (const coir::timed_out&) {
    }
    if (!received) {
      EXPECT_EQ(ch.recv(), 1);
    }
    EXPECT_EQ(ch.len(), 0U);
  });
  EXPECT_TRUE(e) << e;
}

TEST(ExplorePrimitives, ACancelReachesAllBelow) {
  const coir::exploration e = coir::explore(some, [] {
    auto [above, cancel] = coir::with_cancel(coir::context::background());
    auto [below, cancel_below] = coir::with_timeout(above, 1h);
    coir::wait_group both;
    both.go([c = cancel] { c(); });
    both.go([c = cancel_below] { c(); });
    below.done().recv();
    above.done().recv();
    EXPECT_TRUE(below.err() && above.err());
    both.wait();
  });
  EXPECT_TRUE(e) << e;
}

TEST(ExplorePrimitives, MutexesExcludeWithinTwoPreemptions) {
  const coir::exploration e = coir::explore({.schedules = 1'000'000, .strategy = coir::dfs(2)}, [] {
    coir::mutex lock;
    int inside = 0;
    const auto enter = [&] {
      lock.lock();
      EXPECT_EQ(++inside, 1);
      coir::yield();
      --inside;
      lock.unlock();
    };
    auto other = coir::spawn(enter);
    enter();
    other.get();
  });
  EXPECT_TRUE(e) << e;
  EXPECT_TRUE(e.exhausted());
}

// ---- weakened copies -----------------------------------------------------------------------------------------------

/// A release hands its permit to the first in the queue, and does not look whether that one has just been cancelled.
class forgetful_semaphore {
 public:
  explicit forgetful_semaphore(int n) : free_(n) {}

  void acquire() {
    coir::detail::decide(coir::detail::operation::acquire, this);
    lock_.lock();
    if (free_ > 0) {
      --free_;
      lock_.unlock();
      return;
    }
    coir::detail::wait_node node;
    if (coir::detail::sleep_in({lock_, queue_}, node, {"forgetful_semaphore"}) == coir::detail::wake::fired) return;
    lock_.unlock();
    coir::detail::throw_cancelled();
  }

  void release() {
    coir::detail::decide(coir::detail::operation::release, this);
    lock_.lock();
    coir::detail::wait_node* const first = queue_.front();
    bool woken = false;
    if (first == nullptr) {
      ++free_;
    } else {
      queue_.remove(*first);
      woken = first->who->claim(*first);  // if not, the permit is lost
    }
    lock_.unlock();
    if (woken) coir::detail::unpark(*first->who);
  }

  bool try_acquire() { return free_ > 0; }

 private:
  coir::detail::spin_lock lock_;
  coir::detail::wait_queue queue_;
  int free_;
};

TEST(ExploreWeakened, ASemaphoreThatLosesAPermitOnCancellationIsFound) {
  const coir::exploration e = coir::explore({.schedules = 10'000}, cancel_an_acquire<forgetful_semaphore>);
  EXPECT_TRUE(e.kind() == failure_kind::deadlock || e.kind() == failure_kind::assertion) << e;
}

/// A condition variable that unlocks before it enlists: a notification that comes in between is lost.
class late_condition_variable {
 public:
  void wait(std::unique_lock<coir::mutex>& held) {
    held.unlock();
    coir::detail::decide(coir::detail::operation::wait, this);
    coir::detail::wait_node node;
    lock_.lock();
    if (coir::detail::sleep_in({lock_, queue_}, node, {"late_condition_variable"}) != coir::detail::wake::fired)
      lock_.unlock();
    held.lock();
  }

  void notify_one() {
    coir::detail::decide(coir::detail::operation::notify, this);
    lock_.lock();
    coir::detail::wait_node* const first = queue_.claim_front();
    lock_.unlock();
    if (first != nullptr) coir::detail::unpark(*first->who);
  }

 private:
  coir::detail::spin_lock lock_;
  coir::detail::wait_queue queue_;
};

template <class ConditionVariable>
void wait_for_a_flag() {
  coir::mutex lock;
  ConditionVariable changed;
  bool flag = false;
  auto waiter = coir::spawn([&] {
    std::unique_lock held(lock);
    while (!flag) changed.wait(held);  // NOLINT(bugprone-infinite-loop): another fiber ends it
  });
  {
    const std::scoped_lock held(lock);
    flag = true;
  }
  changed.notify_one();
  waiter.get();
}

TEST(ExploreWeakened, AConditionVariableThatLosesANotificationIsFound) {
  const coir::exploration e = coir::explore({.schedules = 10'000}, wait_for_a_flag<late_condition_variable>);
  EXPECT_EQ(e.kind(), failure_kind::deadlock) << e;
  const coir::exploration original = coir::explore(some, wait_for_a_flag<coir::condition_variable>);
  EXPECT_TRUE(original) << original;
}

}  // namespace
