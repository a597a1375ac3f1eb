// semaphore: a number of permits, which are acquired and given back several at a time; as golang.org/x/sync/semaphore.
// Waiters are served first come, first served, without exception: a newcomer never passes a waiter, however little it
// asks for. So small requests do not starve a large one, but a large request that waits holds up those behind it.
//
// A waiter that was granted its permits has them, even if a timeout or a cancellation comes at that moment. A waiter
// that gives up lets those behind it through.
//
// Thread safety: fibers and threads may call all members at once, and any of them may call release(). A release happens
// before the return of the acquire that it makes possible. A semaphore may be destroyed when no fiber or thread waits
// and no call is under way.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/permits.hpp>

namespace coir::inline COIR_ABI {

/// A counting semaphore, for fibers and threads.
class semaphore {
  using acquire_wait = detail::permits::request;

 public:
  /// For numbers of permits.
  using count_type = std::int64_t;

  /// Has that many permits, which is also the most that it can ever have. Throws std::invalid_argument if negative.
  explicit semaphore(count_type permits);
  semaphore(const semaphore&) = delete;
  semaphore& operator=(const semaphore&) = delete;

  /// Blocks until n permits can be taken, and takes them. A cancellation point if it has to wait: throws `cancelled`.
  /// Throws std::invalid_argument if the semaphore has fewer than n permits altogether, or n is negative.
  void acquire(count_type n = 1) {
    check(n);
    permits_.acquire(n);
  }

  /// Takes n permits if that is possible without waiting. Never blocks. Throws std::invalid_argument as acquire().
  bool try_acquire(count_type n = 1) {
    check(n);
    return permits_.try_acquire(n);
  }

  /// As acquire(), but gives up when the time is over. Returns whether it has taken the permits.
  template <class Rep, class Period>
  bool acquire_for(count_type n, std::chrono::duration<Rep, Period> d) {
    check(n);
    return permits_.try_acquire(n) || permits_.acquire(n, detail::deadline_after(d));
  }
  /// The same for one permit.
  template <class Rep, class Period>
  bool acquire_for(std::chrono::duration<Rep, Period> d) {
    return acquire_for(1, d);
  }
  /// The same until a point in time.
  template <class Clock, class Duration>
  bool acquire_until(count_type n, std::chrono::time_point<Clock, Duration> t) {
    check(n);
    return permits_.acquire(n, detail::deadline_at(t));
  }
  /// The same for one permit.
  template <class Clock, class Duration>
  bool acquire_until(std::chrono::time_point<Clock, Duration> t) {
    return acquire_until(1, t);
  }

  /// `co_await s.async_acquire(n)` and so on in a coir::async: as acquire(n), acquire_for(n, d) and acquire_until(n,
  /// t), but the coroutine waits instead of a fiber, in the same queue. The time counts from the call. Those with a
  /// time return whether the permits were acquired. They also throw std::bad_alloc, and std::system_error if the thread
  /// for a timer cannot be started.
  detail::queue_awaiter<acquire_wait> async_acquire(count_type n = 1) {
    check(n);
    return detail::queue_awaiter<acquire_wait>(std::in_place, permits_, n);
  }
  /// For coroutines: `co_await` of it does what acquire_for() does.
  template <class Rep, class Period>
  detail::timed_queue_awaiter<acquire_wait> async_acquire_for(count_type n, std::chrono::duration<Rep, Period> d) {
    check(n);
    return detail::timed_queue_awaiter<acquire_wait>(detail::deadline_after(d), permits_, n);
  }
  /// The same for one permit.
  template <class Rep, class Period>
  detail::timed_queue_awaiter<acquire_wait> async_acquire_for(std::chrono::duration<Rep, Period> d) {
    return async_acquire_for(1, d);
  }
  /// For coroutines: `co_await` of it does what acquire_until() does.
  template <class Clock, class Duration>
  detail::timed_queue_awaiter<acquire_wait> async_acquire_until(count_type n,
                                                                std::chrono::time_point<Clock, Duration> t) {
    check(n);
    return detail::timed_queue_awaiter<acquire_wait>(detail::deadline_at(t), permits_, n);
  }
  /// The same for one permit.
  template <class Clock, class Duration>
  detail::timed_queue_awaiter<acquire_wait> async_acquire_until(std::chrono::time_point<Clock, Duration> t) {
    return async_acquire_until(1, t);
  }

  /// Gives n permits back, and wakes as many waiters as they suffice for. Never blocks. Throws std::logic_error, and
  /// changes nothing, if fewer than n permits are out. Throws std::invalid_argument if n is negative.
  void release(count_type n = 1) {
    if (n < 0 || !permits_.release(n)) [[unlikely]]
      refuse_release(n);
  }

  /// Whether acquire(1) would have to wait now. Does not block.
  bool locked() const noexcept { return permits_.exhausted(); }

 private:
  void check(count_type n) const {
    if (n < 0 || n > permits_.total()) refuse(n);
  }
  [[noreturn]] void refuse(count_type n) const;
  [[noreturn]] static void refuse_release(count_type n);

  mutable detail::permits permits_;  // mutable: even a look has to lock
};

}  // namespace coir
