// timed_mutex: a mutex whose lock can give up; as std::timed_mutex. It has the same protocol as mutex.
#pragma once

#include <chrono>

#include <coir/detail/abi.hpp>
#include <coir/mutex.hpp>

namespace coir::inline COIR_ABI {

/// As std::timed_mutex, for fibers and threads.
class timed_mutex : private mutex {
 public:
  constexpr timed_mutex() noexcept = default;

  using mutex::async_lock;
  using mutex::lock;
  using mutex::try_lock;
  using mutex::unlock;

  /// As lock(), but gives up when the time is over: it then returns false and has not taken the mutex. A free mutex is
  /// taken even if the time is over. Not a cancellation point.
  template <class Rep, class Period>
  bool try_lock_for(std::chrono::duration<Rep, Period> d) {
    return try_lock() || lock_contended(detail::deadline_after(d));
  }
  /// The same until a point in time.
  template <class Clock, class Duration>
  bool try_lock_until(std::chrono::time_point<Clock, Duration> t) {
    return try_lock() || lock_contended(detail::deadline_at(t));
  }

  /// `co_await m.async_try_lock_for(d)` and `co_await m.async_try_lock_until(t)` in a coir::async: the same for
  /// coroutines. See async_lock(). They also throw std::bad_alloc, and std::system_error if the thread for a timer
  /// cannot be started.
  template <class Rep, class Period>
  detail::timed_queue_awaiter<detail::handed_over_lock> async_try_lock_for(std::chrono::duration<Rep, Period> d) {
    return detail::timed_queue_awaiter<detail::handed_over_lock>(detail::deadline_after(d), as_mutex());
  }
  /// For coroutines: `co_await` of it does what try_lock_until() does.
  template <class Clock, class Duration>
  detail::timed_queue_awaiter<detail::handed_over_lock> async_try_lock_until(
      std::chrono::time_point<Clock, Duration> t) {
    return detail::timed_queue_awaiter<detail::handed_over_lock>(detail::deadline_at(t), as_mutex());
  }

 private:
  mutex& as_mutex() noexcept { return *this; }
};

}  // namespace coir
