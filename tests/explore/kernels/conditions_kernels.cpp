// Condition variables: a notification that is lost, or wakes the wrong waiter, or is taken for what it does not say.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "kernels.hpp"

namespace kernels {

namespace {

using namespace std::chrono_literals;

/// A waiter waits without a predicate. The notification may come before it waits.
template <bool mended>
void notified_before_the_wait() {
  coir::mutex lock;
  coir::condition_variable changed;
  bool ready = false;
  auto notifier = coir::spawn([&] {
    {
      const std::scoped_lock held(lock);
      ready = true;
    }
    changed.notify_one();
  });
  {
    std::unique_lock held(lock);
    if (mended)
      changed.wait(held, [&] { return ready; });
    else
      changed.wait(held);
  }
  notifier.get();
}

/// The predicate is checked by `if`. Two consumers are woken for one item.
template <bool mended>
void if_instead_of_while() {
  coir::mutex lock;
  coir::condition_variable changed;
  int items = 0;
  int least = 0;
  const auto take = [&] {
    std::unique_lock held(lock);
    if (mended) {
      while (items == 0) changed.wait(held);  // NOLINT(bugprone-infinite-loop): another fiber ends it
    } else if (items == 0) {
      changed.wait(held);
    }
    least = std::min(least, --items);
  };
  const auto put = [&] {
    const std::scoped_lock held(lock);
    ++items;
    changed.notify_all();
  };
  auto one = coir::spawn(take);
  auto other = coir::spawn(take);
  put();
  put();
  one.get();
  other.get();
  require(least == 0, "taken from an empty store");
}

/// Waiters for different states share a condition variable, and one of them is notified.
template <bool mended>
void the_wrong_one_is_notified() {
  coir::mutex lock;
  coir::condition_variable changed;
  int stage = 0;
  const auto wait_for_stage = [&](int wanted) {
    std::unique_lock held(lock);
    changed.wait(held, [&] { return stage >= wanted; });
  };
  auto first = coir::spawn([&] { wait_for_stage(1); });
  auto second = coir::spawn([&] { wait_for_stage(2); });
  const auto advance = [&] {
    const std::scoped_lock held(lock);
    ++stage;
    mended ? changed.notify_all() : changed.notify_one();
  };
  advance();
  first.get();
  advance();
  second.get();
}

/// The state changes without the lock: after the waiter has looked, and before it waits.
template <bool mended>
void changed_without_the_lock() {
  coir::mutex lock;
  coir::condition_variable changed;
  std::atomic<bool> ready = false;
  auto waiter = coir::spawn([&] {
    std::unique_lock held(lock);
    while (!ready) changed.wait(held);
  });
  {
    std::unique_lock held(lock, std::defer_lock);
    if (mended) held.lock();
    ready = true;
  }
  changed.notify_one();
  waiter.get();
}

/// A producer notifies only if the store was empty. Of two sleeping consumers one sleeps on.
template <bool mended>
void notified_only_if_empty() {
  coir::mutex lock;
  coir::condition_variable filled;
  int items = 0;
  const auto take = [&] {
    std::unique_lock held(lock);
    filled.wait(held, [&] { return items > 0; });
    --items;
  };
  auto one = coir::spawn(take);
  auto other = coir::spawn(take);
  for (int i = 0; i < 2; ++i) {
    const std::scoped_lock held(lock);
    if (items++ == 0 || mended) filled.notify_one();
  }
  one.get();
  other.get();
}

/// A shutdown notifies one of two workers.
template <bool mended>
void shutdown_wakes_one() {
  coir::mutex lock;
  coir::condition_variable changed;
  bool stopping = false;
  coir::wait_group workers;
  for (int i = 0; i < 2; ++i)
    workers.go([&] {
      std::unique_lock held(lock);
      changed.wait(held, [&] { return stopping; });
    });
  {
    const std::scoped_lock held(lock);
    stopping = true;
  }
  mended ? changed.notify_all() : changed.notify_one();
  workers.wait();
}

/// Whether a wait has ended by its timeout is not looked at.
template <bool mended>
void timeout_taken_for_success() {
  coir::mutex lock;
  coir::condition_variable changed;
  int answer = 0;
  bool used_nothing = false;
  auto asks = coir::spawn([&] {
    std::unique_lock held(lock);
    const bool answered = changed.wait_for(held, 1ms, [&] { return answer != 0; });
    if (answered || !mended) used_nothing = answer == 0;
  });
  coir::sleep_for(1ms);
  {
    const std::scoped_lock held(lock);
    answer = 42;
  }
  changed.notify_one();
  asks.get();
  require(!used_nothing, "used without an answer");
}

/// Producers and consumers of a buffer wait on one condition variable. A producer wakes another producer.
template <bool mended>
void one_condition_for_both() {
  coir::mutex lock;
  coir::condition_variable changed;
  coir::condition_variable freed;
  bool full = false;
  const auto put = [&] {
    std::unique_lock held(lock);
    (mended ? freed : changed).wait(held, [&] { return !full; });
    full = true;
    changed.notify_one();
  };
  const auto take = [&] {
    std::unique_lock held(lock);
    changed.wait(held, [&] { return full; });
    full = false;
    (mended ? freed : changed).notify_one();
  };
  coir::wait_group all;
  for (int i = 0; i < 2; ++i) all.go(put);
  for (int i = 0; i < 2; ++i) all.go(take);
  all.wait();
}

/// A signal is reset by the fiber that sent it, before the waiter has looked.
template <bool mended>
void signal_reset_too_early() {
  coir::mutex lock;
  coir::condition_variable changed;
  bool open = false;
  int round = 0;
  auto opener = coir::spawn([&] {
    std::unique_lock held(lock);
    open = true;
    ++round;
    changed.notify_all();
    held.unlock();
    coir::yield();
    held.lock();
    open = false;
  });
  {
    std::unique_lock held(lock);
    changed.wait(held, [&] { return mended ? round != 0 : open; });
  }
  opener.get();
}

constexpr kernel all[] = {
    {"notified_before_the_wait", "A wait without a predicate; the notification comes before it", effect::deadlock,
     notified_before_the_wait<false>, notified_before_the_wait<true>},
    {"if_instead_of_while", "The predicate is checked by if; two are woken for one item", effect::exception,
     if_instead_of_while<false>, if_instead_of_while<true>},
    {"the_wrong_one_is_notified", "notify_one, but the waiters wait for different states", effect::deadlock,
     the_wrong_one_is_notified<false>, the_wrong_one_is_notified<true>},
    {"changed_without_the_lock", "The state changes without the lock, just before the wait", effect::deadlock,
     changed_without_the_lock<false>, changed_without_the_lock<true>},
    {"notified_only_if_empty", "A producer notifies only if the store was empty", effect::deadlock,
     notified_only_if_empty<false>, notified_only_if_empty<true>},
    {"shutdown_wakes_one", "A shutdown notifies one of two workers", effect::deadlock,  //
     shutdown_wakes_one<false>, shutdown_wakes_one<true>},
    {"timeout_taken_for_success", "The result of a timed wait is ignored", effect::exception,
     timeout_taken_for_success<false>, timeout_taken_for_success<true>},
    {"one_condition_for_both", "Producers and consumers wait on one condition variable", effect::deadlock,
     one_condition_for_both<false>, one_condition_for_both<true>},
    {"signal_reset_too_early", "A signal is reset before the woken waiter has looked", effect::deadlock,
     signal_reset_too_early<false>, signal_reset_too_early<true>},
};

}  // namespace

std::span<const kernel> conditions() { return all; }

}  // namespace kernels
