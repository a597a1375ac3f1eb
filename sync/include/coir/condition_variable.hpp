// condition_variable: blocks a fiber or thread until another has changed the state that a lock guards. As
// std::condition_variable_any, with std::unique_lock<coir::mutex> or any other lock of coir's.
//
// notify_one() wakes the waiter that has waited longest. A later waiter cannot take an earlier one's wake-up. There are
// no spurious wake-ups. But another fiber may lock first and change the state back, so wait with a predicate.
//
// A waiter *enlists* while it holds the user's lock. It then unlocks the user's lock and sleeps. If it has been
// notified in between, its entry says so (under the list's lock), and it does not sleep. So the user's lock is never
// unlocked under the list's lock.
//
// A stop request may come for a waiter that has been notified but has not run since. The variable may be gone then. So
// the stop callback reaches the variable only through the waiter's entry, which refers to it only while the entry is
// queued.
//
// Every wait returns, or throws, with the user's lock held again, whatever ended it. Waiting is a cancellation point;
// locking again is not. (If a certain deadlock is unwound and that ends the second lock, the lock is not held, and
// std::unique_lock knows that.)
//
// Thread safety: all members may be called at the same time. Happens-before: a notify happens before the return of the
// wait that it wakes. The variable may be destroyed when all waiters have been notified, even if they have not returned
// yet. The destructor then waits for those that have not yet seen their notification, and may move the calling fiber to
// another thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <shared_mutex>
#include <stop_token>
#include <type_traits>
#include <utility>

#include <coir/async.hpp>
#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/detail/queued_wait.hpp>
#include <coir/detail/stop_hook.hpp>
#include <coir/detail/wait_list.hpp>
#include <coir/this_fiber.hpp>

namespace coir::inline COIR_ABI {

namespace detail {

/// How a coroutine locks again what it has unlocked: what it awaits, and what it does then.
template <class Lock>
struct async_relock {
  /// What the coroutine awaits. It then holds the mutex.
  static auto await(Lock& mutex)
    requires requires { mutex.async_lock(); }
  {
    return mutex.async_lock();
  }
  static void adopt(Lock&) noexcept {}  ///< tells a lock object that its mutex is held; a mutex knows it
};
template <class Mutex>
struct async_relock<std::unique_lock<Mutex>> {
  static auto await(std::unique_lock<Mutex>& lock)
    requires requires { lock.mutex()->async_lock(); }
  {
    return lock.mutex()->async_lock();
  }
  static void adopt(std::unique_lock<Mutex>& lock) { lock = std::unique_lock<Mutex>(*lock.mutex(), std::adopt_lock); }
};
template <class Mutex>
struct async_relock<std::shared_lock<Mutex>> {
  static auto await(std::shared_lock<Mutex>& lock)
    requires requires { lock.mutex()->async_lock_shared(); }
  {
    return lock.mutex()->async_lock_shared();
  }
  static void adopt(std::shared_lock<Mutex>& lock) { lock = std::shared_lock<Mutex>(*lock.mutex(), std::adopt_lock); }
};
template <class Lock>
concept async_relockable = requires(Lock& lock) { async_relock<Lock>::await(lock); };

}  // namespace detail

/// As std::condition_variable_any, for fibers and threads.
class condition_variable {
 public:
  constexpr condition_variable() noexcept = default;
  ~condition_variable();
  condition_variable(const condition_variable&) = delete;
  condition_variable& operator=(const condition_variable&) = delete;

  /// Wakes the waiter that has waited longest, if there is one. Never blocks. The lock need not be held.
  void notify_one() noexcept;

  /// Wakes all waiters. Never blocks. The lock need not be held.
  void notify_all() noexcept;

  /// Unlocks the lock, blocks until notified, and locks again. A cancellation point: throws `cancelled`, with the lock
  /// held again. Also throws what lock and unlock throw.
  template <class Lock>
  void wait(Lock& lock) {
    wait_once(lock, detail::no_deadline, nullptr);
  }

  /// Waits until predicate() is true. The predicate is called with the lock held.
  template <class Lock, class Predicate>
  void wait(Lock& lock, Predicate predicate) {
    while (!predicate()) wait(lock);
  }

  /// As wait(lock), but the wait also ends when the time is over. Returns std::cv_status::timeout then.
  template <class Lock, class Clock, class Duration>
  std::cv_status wait_until(Lock& lock, std::chrono::time_point<Clock, Duration> t) {
    return wait_once(lock, detail::deadline_at(t), nullptr);
  }
  /// The same for at most that long.
  template <class Lock, class Rep, class Period>
  std::cv_status wait_for(Lock& lock, std::chrono::duration<Rep, Period> d) {
    return wait_once(lock, detail::deadline_after(d), nullptr);
  }

  /// Waits until predicate() is true or the time is over. Returns the last result of predicate(): false only if the
  /// time was over.
  template <class Lock, class Clock, class Duration, class Predicate>
  bool wait_until(Lock& lock, std::chrono::time_point<Clock, Duration> t, Predicate predicate) {
    return wait_for_predicate(lock, detail::deadline_at(t), nullptr, predicate);
  }
  /// The same for at most that long.
  template <class Lock, class Rep, class Period, class Predicate>
  bool wait_for(Lock& lock, std::chrono::duration<Rep, Period> d, Predicate predicate) {
    return wait_for_predicate(lock, detail::deadline_after(d), nullptr, predicate);
  }

  /// The same, but a stop request ends the wait too. Returns false if predicate() is false and stop was requested or
  /// the time was over.
  template <class Lock, class Predicate>
  bool wait(Lock& lock, std::stop_token stop, Predicate predicate) {
    return wait_for_predicate(lock, detail::no_deadline, &stop, predicate);
  }
  /// The same until a point in time.
  template <class Lock, class Clock, class Duration, class Predicate>
  bool wait_until(Lock& lock, std::stop_token stop, std::chrono::time_point<Clock, Duration> t, Predicate predicate) {
    return wait_for_predicate(lock, detail::deadline_at(t), &stop, predicate);
  }
  /// The same for at most that long.
  template <class Lock, class Rep, class Period, class Predicate>
  bool wait_for(Lock& lock, std::stop_token stop, std::chrono::duration<Rep, Period> d, Predicate predicate) {
    return wait_for_predicate(lock, detail::deadline_after(d), &stop, predicate);
  }

  /// `co_await c.async_wait(lock)` and so on in a coir::async: as the functions above, but the coroutine waits instead
  /// of a fiber, first to be notified and then for the lock. Fibers and coroutines share one queue. The lock is a
  /// std::unique_lock or std::shared_lock of one of coir's mutexes that can be awaited, or such a mutex itself. It must
  /// stay where it is. Each call allocates a frame, and a call with a predicate one more. Those with a time throw
  /// std::bad_alloc, and std::system_error if the thread for a timer cannot be started.
  template <class Lock>
  async<void> async_wait(Lock& lock) {
    return async_wait_once<false>(lock, detail::no_deadline, nullptr);
  }
  /// The same until the predicate is true.
  template <class Lock, class Predicate>
  async<void> async_wait(Lock& lock, Predicate&& predicate) {
    detail::check_made_in_co_await<Predicate>();
    return async_wait_while_not(lock, std::forward<Predicate>(predicate));
  }
  /// For coroutines: `co_await` of it does what wait_until() does.
  template <class Lock, class Clock, class Duration>
  async<std::cv_status> async_wait_until(Lock& lock, std::chrono::time_point<Clock, Duration> t) {
    return async_wait_once<true>(lock, detail::deadline_at(t), nullptr);
  }
  /// For coroutines: `co_await` of it does what wait_for() does.
  template <class Lock, class Rep, class Period>
  async<std::cv_status> async_wait_for(Lock& lock, std::chrono::duration<Rep, Period> d) {
    return async_wait_once<true>(lock, detail::deadline_after(d), nullptr);
  }
  /// For coroutines: `co_await` of it does what wait_until() with a predicate does.
  template <class Lock, class Clock, class Duration, class Predicate>
  async<bool> async_wait_until(Lock& lock, std::chrono::time_point<Clock, Duration> t, Predicate&& predicate) {
    detail::check_made_in_co_await<Predicate>();
    return async_wait_for_predicate<true>(lock, std::stop_token(), detail::deadline_at(t),
                                          std::forward<Predicate>(predicate));
  }
  /// For coroutines: `co_await` of it does what wait_for() with a predicate does.
  template <class Lock, class Rep, class Period, class Predicate>
  async<bool> async_wait_for(Lock& lock, std::chrono::duration<Rep, Period> d, Predicate&& predicate) {
    detail::check_made_in_co_await<Predicate>();
    return async_wait_for_predicate<true>(lock, std::stop_token(), detail::deadline_after(d),
                                          std::forward<Predicate>(predicate));
  }
  /// For coroutines: `co_await` of it does what wait() with a stop token does.
  template <class Lock, class Predicate>
  async<bool> async_wait(Lock& lock, std::stop_token stop, Predicate&& predicate) {
    detail::check_made_in_co_await<Predicate>();
    return async_wait_for_predicate<false>(lock, std::move(stop), detail::no_deadline,
                                           std::forward<Predicate>(predicate));
  }
  /// For coroutines: `co_await` of it does what wait_until() with a stop token does.
  template <class Lock, class Clock, class Duration, class Predicate>
  async<bool> async_wait_until(Lock& lock, std::stop_token stop, std::chrono::time_point<Clock, Duration> t,
                               Predicate&& predicate) {
    detail::check_made_in_co_await<Predicate>();
    return async_wait_for_predicate<true>(lock, std::move(stop), detail::deadline_at(t),
                                          std::forward<Predicate>(predicate));
  }
  /// For coroutines: `co_await` of it does what wait_for() with a stop token does.
  template <class Lock, class Rep, class Period, class Predicate>
  async<bool> async_wait_for(Lock& lock, std::stop_token stop, std::chrono::duration<Rep, Period> d,
                             Predicate&& predicate) {
    detail::check_made_in_co_await<Predicate>();
    return async_wait_for_predicate<true>(lock, std::move(stop), detail::deadline_after(d),
                                          std::forward<Predicate>(predicate));
  }

 private:
  /// Guarded by the lock of waiters_.
  struct entry : detail::queued_wait {
    bool asleep = false;  // then a notifier must claim it
    bool popped = false;  // by a notifier that had nothing to claim: not asleep yet, or timed out; in departing_
    bool chosen = false;  // popped by notify_one() before it slept: the notification is spent

    // For a stop callback; null while the entry is not queued. Changes under the list's lock and `link`. The holder of
    // `link` does not wait for the list's lock.
    detail::spin_lock link;
    condition_variable* where = nullptr;
  };

  /// The sleep of a waiter that has enlisted; see queued_wait.hpp.
  class sleep final {
   public:
    sleep(condition_variable& on, entry& e) noexcept : on_(&on), entry_(&e) {}

    detail::wait_place place() const noexcept { return on_->waiters_.place(); }
    detail::wait_node& node() const noexcept { return *entry_; }
    detail::wait_reason why() const noexcept { return {"condition_variable wait", on_}; }
    static constexpr bool is_lock() noexcept { return false; }
    static constexpr bool try_now() noexcept { return false; }
    bool enter() noexcept;
    detail::wake leave(detail::wake how) noexcept;
    static detail::wake outcome(detail::wake how) noexcept { return how; }  // the lock has to be had before all else

   private:
    condition_variable* on_;
    entry* entry_;
  };

  void enlist(entry& e, bool stoppable) noexcept;
  void withdraw(entry& e) noexcept;
  void wake_first(detail::wake_list& wakes) noexcept;
  bool wake(entry& e, detail::wake_list& wakes) noexcept;
  static void leave(entry& e) noexcept;
  static void wake_stopped(entry& e) noexcept;

  template <class Lock>
  std::cv_status wait_once(Lock& lock, detail::deadline until, const std::stop_token* stop);
  template <class Lock, class Predicate>
  bool wait_for_predicate(Lock& lock, detail::deadline until, const std::stop_token* stop, Predicate& predicate);

  template <class Lock>
  void unlock(Lock& lock, entry& e, const std::stop_token* stop);
  template <bool timed, class Lock>
  async<std::conditional_t<timed, std::cv_status, void>> async_wait_once(Lock& lock, detail::deadline until,
                                                                         const std::stop_token* stop);
  template <class Lock, class Predicate>
  async<void> async_wait_while_not(Lock& lock, Predicate predicate);
  template <bool timed, class Lock, class Predicate>
  async<bool> async_wait_for_predicate(Lock& lock, std::stop_token stop, detail::deadline until, Predicate predicate);

  detail::wait_list waiters_;
  std::uint64_t departing_ = 0;  // popped entries whose owners have yet to take the lock again
};

/// Enlists, then unlocks.
template <class Lock>
void condition_variable::unlock(Lock& lock, entry& e, const std::stop_token* stop) {
  enlist(e, stop != nullptr);
  try {
    lock.unlock();
  } catch (...) {
    withdraw(e);
    throw;
  }
  // A request that came before enlist() has found nobody to wake.
  if (stop != nullptr && stop->stop_requested()) wake_stopped(e);
}

template <class Lock>
std::cv_status condition_variable::wait_once(Lock& lock, detail::deadline until, const std::stop_token* stop) {
  detail::decide(detail::operation::wait, this);
  detail::wake how;
  {
    entry e;
    auto on_stop = [&e] { wake_stopped(e); };
    detail::stop_hook<decltype(on_stop)> hook;
    if (stop != nullptr) hook.set(*stop, on_stop);
    unlock(lock, e, stop);
    sleep notified(*this, e);
    how = detail::block(notified, until);
  }
  {
    const detail::lock_wait relock(detail::this_waiter());
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

template <bool timed, class Lock>
async<std::conditional_t<timed, std::cv_status, void>> condition_variable::async_wait_once(
    Lock& lock, detail::deadline until, const std::stop_token* stop) {
  static_assert(detail::async_relockable<Lock>,
                "coir: a coroutine waits with a std::unique_lock or std::shared_lock of a mutex of coir's that it can "
                "lock by co_await, or with such a mutex itself");
  detail::wake how{};
  std::exception_ptr error;
  {
    entry e;
    auto on_stop = [&e] { wake_stopped(e); };
    detail::stop_hook<decltype(on_stop)> hook;
    if (stop != nullptr) hook.set(*stop, on_stop);
    unlock(lock, e, stop);
    if constexpr (timed) {
      try {
        how = co_await detail::timed_queue_awaiter<sleep>(until, *this, e);
      } catch (...) {  // the deadline could not be armed
        withdraw(e);
        error = std::current_exception();
      }
    } else {
      how = co_await detail::queue_awaiter<sleep>(std::in_place, *this, e);
    }
  }
  co_await detail::async_relock<Lock>::await(lock);
  detail::async_relock<Lock>::adopt(lock);
  if (error) std::rethrow_exception(std::move(error));
  if (how == detail::wake::cancelled) detail::throw_cancelled();
  if constexpr (timed) co_return how == detail::wake::timed_out ? std::cv_status::timeout : std::cv_status::no_timeout;
}

template <class Lock, class Predicate>
async<void> condition_variable::async_wait_while_not(Lock& lock, Predicate predicate) {
  while (!predicate()) co_await async_wait_once<false>(lock, detail::no_deadline, nullptr);
}

/// `stop` has no state if no stop request ends the wait.
template <bool timed, class Lock, class Predicate>
async<bool> condition_variable::async_wait_for_predicate(Lock& lock, std::stop_token stop, detail::deadline until,
                                                         Predicate predicate) {
  const std::stop_token* const heeded = stop.stop_possible() ? &stop : nullptr;
  while (!predicate()) {
    if (stop.stop_requested()) co_return false;
    if constexpr (timed) {
      const std::cv_status how = co_await async_wait_once<true>(lock, until, heeded);
      if (how == std::cv_status::timeout) co_return predicate();
    } else {
      co_await async_wait_once<false>(lock, until, heeded);
    }
  }
  co_return true;
}

}  // namespace coir
