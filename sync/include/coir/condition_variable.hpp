// condition_variable: waits until others have changed what a lock guards; as std::condition_variable_any: with
// std::unique_lock<coir::mutex>, or any other lock of coir's.
//
// notify_one() wakes the one that has waited longest; a later waiter cannot take an earlier one's wake. There are no
// spurious wakes, but another may have locked first and changed things back, so wait with a predicate.
//
// A waiter *enlists* while it holds the user's lock, unlocks that, and then sleeps, unless it has been notified in
// between (which it learns from its entry, under the list's lock). So the user's lock is never unlocked under the
// list's.
//
// A stop request may come for a waiter that has been notified and has not run since, when the variable may be gone. So
// the callback reaches the variable through the entry alone, which leads there as long as it is queued.
//
// Every wait returns, or throws, with the user's lock held again, whatever ended it.
// Thread safety: all members at once. notify happens before the return of the wait that it wakes.
// May be destroyed when all who wait have been notified, even if they have not returned yet; the destructor then waits
// for those that have not looked at their notification, and may move the calling fiber to another thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <stop_token>
#include <utility>

#include <coir/stop_hook.hpp>
#include <coir/this_fiber.hpp>
#include <coir/wait_list.hpp>

namespace coir {

class condition_variable {
 public:
  constexpr condition_variable() noexcept = default;
  ~condition_variable();
  condition_variable(const condition_variable&) = delete;
  condition_variable& operator=(const condition_variable&) = delete;

  /// Wakes the one that has waited longest, if anybody waits. Never blocks. The lock need not be held.
  void notify_one() noexcept;

  /// Wakes all who wait. Never blocks.
  void notify_all() noexcept;

  /// Unlocks, blocks until notified, locks again. Throws `cancelled` (the lock is held again first), and what lock and
  /// unlock throw.
  template <class Lock>
  void wait(Lock& lock) {
    wait_once(lock, detail::no_deadline, nullptr);
  }

  /// Until predicate(), called with the lock held, is true.
  template <class Lock, class Predicate>
  void wait(Lock& lock, Predicate predicate) {
    while (!predicate()) wait(lock);
  }

  /// wait(lock) that ends without notification too when the time is over: std::cv_status::timeout.
  template <class Lock, class Clock, class Duration>
  std::cv_status wait_until(Lock& lock, std::chrono::time_point<Clock, Duration> t) {
    return wait_once(lock, detail::deadline_at(t), nullptr);
  }
  template <class Lock, class Rep, class Period>
  std::cv_status wait_for(Lock& lock, std::chrono::duration<Rep, Period> d) {
    return wait_once(lock, detail::deadline_after(d), nullptr);
  }

  /// What predicate() said last: false only if the time was over.
  template <class Lock, class Clock, class Duration, class Predicate>
  bool wait_until(Lock& lock, std::chrono::time_point<Clock, Duration> t, Predicate predicate) {
    return wait_for_predicate(lock, detail::deadline_at(t), nullptr, predicate);
  }
  template <class Lock, class Rep, class Period, class Predicate>
  bool wait_for(Lock& lock, std::chrono::duration<Rep, Period> d, Predicate predicate) {
    return wait_for_predicate(lock, detail::deadline_after(d), nullptr, predicate);
  }

  /// The same, ended by a stop request too. False: stop was requested, or the time was over, and predicate() is false.
  template <class Lock, class Predicate>
  bool wait(Lock& lock, std::stop_token stop, Predicate predicate) {
    return wait_for_predicate(lock, detail::no_deadline, &stop, predicate);
  }
  template <class Lock, class Clock, class Duration, class Predicate>
  bool wait_until(Lock& lock, std::stop_token stop, std::chrono::time_point<Clock, Duration> t, Predicate predicate) {
    return wait_for_predicate(lock, detail::deadline_at(t), &stop, predicate);
  }
  template <class Lock, class Rep, class Period, class Predicate>
  bool wait_for(Lock& lock, std::stop_token stop, std::chrono::duration<Rep, Period> d, Predicate predicate) {
    return wait_for_predicate(lock, detail::deadline_after(d), &stop, predicate);
  }

 private:
  /// Guarded by the lock of waiters_.
  struct entry : detail::wait_node {
    bool asleep = false;  // then a notifier must claim it
    bool popped = false;  // by a notifier that had nobody to claim: not asleep yet, or timed out; counted in departing_
    bool chosen = false;  // popped, before it slept, by notify_one(): that is spent

    // For a stop callback; null while it is not queued. Changes under the list's lock and `link`; who holds `link` does
    // not wait for the list's lock.
    detail::spin_lock link;
    condition_variable* where = nullptr;
  };

  void enlist(entry& e, bool stoppable) noexcept;
  void withdraw(entry& e) noexcept;
  detail::wake sleep(entry& e, detail::deadline until) noexcept;
  void wake_first(detail::wake_list& wakes) noexcept;
  bool wake(entry& e, detail::wake_list& wakes) noexcept;
  static void leave(entry& e) noexcept;
  static void wake_stopped(entry& e) noexcept;

  template <class Lock>
  std::cv_status wait_once(Lock& lock, detail::deadline until, const std::stop_token* stop);
  template <class Lock, class Predicate>
  bool wait_for_predicate(Lock& lock, detail::deadline until, const std::stop_token* stop, Predicate& predicate);

  detail::wait_list waiters_;
  std::uint64_t departing_ = 0;  // popped entries whose owners have yet to take the lock once more
};

template <class Lock>
std::cv_status condition_variable::wait_once(Lock& lock, detail::deadline until, const std::stop_token* stop) {
  detail::wake how;
  {
    entry e;
    auto on_stop = [&e] { wake_stopped(e); };
    detail::stop_hook<decltype(on_stop)> hook;
    if (stop != nullptr) hook.set(*stop, on_stop);
    enlist(e, stop != nullptr);
    try {
      lock.unlock();
    } catch (...) {
      withdraw(e);
      throw;
    }
    // A request that came before enlist() has found nobody to wake.
    if (stop != nullptr && stop->stop_requested()) wake_stopped(e);
    how = sleep(e, until);
  }
  {
    const uncancellable relock;
    lock.lock();
  }
  if (how == detail::wake::cancelled) detail::throw_cancelled();
  return how == detail::wake::timed_out ? std::cv_status::timeout : std::cv_status::no_timeout;
}

template <class Lock, class Predicate>
bool condition_variable::wait_for_predicate(Lock& lock, detail::deadline until, const std::stop_token* stop,
                                            Predicate& predicate) {
  while (!predicate()) {
    if (stop != nullptr && stop->stop_requested()) return false;
    if (wait_once(lock, until, stop) == std::cv_status::timeout) return predicate();
  }
  return true;
}

}  // namespace coir
