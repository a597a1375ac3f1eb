// mutex: mutual exclusion among fibers and OS threads alike. A blocked fiber leaves its processor to others. It meets
// std's Lockable: std::unique_lock, std::scoped_lock and std::lock work.
//
// Fast, and fair within a bound. A caller that finds the mutex free takes it, even if others wait. But if a waiter has
// waited for more than 1 ms, an unlock hands the mutex straight to it. (A waiter that was woken, and that others keep
// overtaking, is checked at every 32nd unlock.) Waiters are served first come, first served.
//
// The state word. Bits other than `held` and the ticks are set under queue_lock_, or by the owner.
//   held     a fiber or a thread owns the mutex
//   queued   again_ or waiters_ is not empty, so an unlock takes the slow path. queued implies held or woken.
//   woken    an unlock has woken a waiter, and the waiter has not yet taken the mutex or queued again. Until then no
//            unlock wakes another waiter. At most one waiter is woken, or granted, at a time.
//   granted  the woken waiter has not come back for so long that an unlock gave it the mutex: it owns `held`.
//   ticks    counts the unlocks since the wake, so that only some of them read the clock
// The long unlock changes the word only while it holds the mutex and queue_lock_, so nobody else can change it then.
//
// A mutex may be destroyed as soon as its last owner knows that nobody else uses it, as a std::mutex. The last touch of
// an unlock is the atomic operation that frees the word. If the unlock unparks a waiter after that, the waiter is still
// inside lock(), and so keeps the mutex alive until then.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/detail/park.hpp>
#include <coir/detail/queued_wait.hpp>
#include <coir/detail/spin_lock.hpp>

namespace coir::inline COIR_ABI {

namespace detail {

/// `slot` is the mutex if the mutex is to be handed over. That is for a coroutine, which cannot come back to take it.
struct mutex_waiter : wait_node {
  deadline since = 0;  ///< when it began to wait
};

class handed_over_lock;

}  // namespace detail

/// As std::mutex, for fibers and threads.
class mutex {
 public:
  constexpr mutex() noexcept = default;
  /// No fiber or thread may be waiting for the mutex: otherwise the process ends with a report.
  ~mutex() {
    if (!waiters_.empty() || !again_.empty()) [[unlikely]]
      detail::destroyed_with_waiters("mutex", this, queue_lock_, {&again_, &waiters_});
  }
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;

  /// Blocks until the mutex is free and takes it. Not recursive: a second lock by its owner waits forever. Locking is
  /// not a cancellation point, as pthread_mutex_lock() is none. Neither a cancellation nor an expired timeout ends it,
  /// so a lock_guard in a destructor is safe. To bound the wait, use timed_mutex. Only the unwinding of a certain
  /// deadlock that this call is a part of throws `cancelled` from it; the mutex is then not taken. The previous unlock
  /// happens before the return of lock().
  void lock() {
    detail::decide(detail::operation::lock, this);
    // acquire: pairs with the release of the unlock before.
    if ((state_.fetch_or(held, std::memory_order_acquire) & held) != 0) [[unlikely]]
      lock_contended(detail::no_deadline);
  }

  /// `co_await m.async_lock()` in a coir::async: as lock(), but the coroutine waits instead of a fiber. The mutex is
  /// handed to it. For RAII, adopt it: `std::unique_lock held(m, std::adopt_lock);`. The coroutine may unlock it on
  /// another thread. Not a cancellation point either. Throws std::logic_error if the awaiter is kept and awaited a
  /// second time.
  detail::queue_awaiter<detail::handed_over_lock> async_lock() noexcept;

  /// Takes the mutex if it is free. Never blocks, never fails spuriously.
  bool try_lock() noexcept {
    detail::decide(detail::operation::lock, this);
    const bool taken = (state_.load(std::memory_order_relaxed) & held) == 0 &&
                       (state_.fetch_or(held, std::memory_order_acquire) & held) == 0;
    if (!taken) detail::decide_after_poll(detail::operation::lock, this);
    return taken;
  }

  /// Gives the mutex up. Never blocks. Any fiber or thread may call it, not only the one that locked the mutex. Throws
  /// std::logic_error if nobody holds the mutex.
  void unlock() {
    detail::decide(detail::operation::unlock, this);
    // Read the word first: while a woken waiter is on its way, a compare-exchange that fails would be a third one.
    std::uint32_t seen = state_.load(std::memory_order_relaxed);
    // release: pairs with the acquire of the lock to come.
    if (seen != held || !state_.compare_exchange_strong(seen, 0, std::memory_order_release, std::memory_order_relaxed))
        [[unlikely]]
      unlock_contended(seen);
  }

 protected:
  /// Spins, then sleeps. True: the mutex is taken. False: the deadline has passed. Throws `cancelled` if a deadlock is
  /// unwound.
  bool lock_contended(detail::deadline until);

 private:
  friend class detail::handed_over_lock;

  static constexpr std::uint32_t held = 1, queued = 2, woken = 4, granted = 8, tick = 16, ticks = 31 * tick;
  static constexpr std::uint32_t of_woken = woken | granted | ticks;  // the woken waiter clears these

  static bool may_take(std::uint32_t seen, bool was_woken) noexcept;
  bool spin(bool was_woken) noexcept;
  bool take_or_announce(bool was_woken) noexcept;
  void forget_queued_if_empty() noexcept;
  void unlock_contended(std::uint32_t seen);

  std::atomic<std::uint32_t> state_{0};
  detail::spin_lock queue_lock_;  // innermost but for what unpark() takes, and that is called without it
  detail::wait_queue again_;      // waiters that were woken and found the mutex taken; they precede waiters_
  detail::wait_queue waiters_;
  detail::deadline woken_since_ = 0;  // since when the woken waiter has waited; the owner's
};

/// A coroutine's lock; see queued_wait.hpp. An unlock hands the mutex over to the coroutine, so that the coroutine need
/// not be resumed only to find the mutex taken.
class detail::handed_over_lock {
 public:
  /// Refers to the mutex.
  explicit handed_over_lock(mutex& m) noexcept { node_.slot = &m; }

  wait_place place() const noexcept { return {of().queue_lock_, of().waiters_}; }  ///< the mutex's waiters
  wait_node& node() noexcept { return node_; }                                     ///< its place among them
  wait_reason why() const noexcept { return {"mutex lock", node_.slot}; }          ///< for reports
  static constexpr bool is_lock() noexcept { return true; }                        ///< not a cancellation point
  bool try_now() const noexcept { return of().try_lock(); }                        ///< as mutex::try_lock()
  bool enter() noexcept;          ///< true: it has the mutex; false: queue_lock_ is held
  wake leave(wake how) noexcept;  ///< releases queue_lock_; returns `how`

 private:
  mutex& of() const noexcept { return *static_cast<mutex*>(node_.slot); }

  mutex_waiter node_;
};

inline detail::queue_awaiter<detail::handed_over_lock> mutex::async_lock() noexcept {
  return detail::queue_awaiter<detail::handed_over_lock>(std::in_place, *this);
}

}  // namespace coir
