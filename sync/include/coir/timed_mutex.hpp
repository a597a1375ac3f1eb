// timed_mutex: a mutex whose lock can give up; as std::timed_mutex. The very same protocol as mutex.
#pragma once

#include <chrono>

#include <coir/mutex.hpp>

namespace coir {

class timed_mutex : private mutex {
 public:
  constexpr timed_mutex() noexcept = default;

  using mutex::async_lock;
  using mutex::lock;
  using mutex::try_lock;
  using mutex::unlock;

  /// As lock(), but returns false, the mutex not taken, when the time is over first; takes a free one though the time
  /// is over. Throws `cancelled` if it would block and the calling fiber is cancelled.
  template <class Rep, class Period>
  bool try_lock_for(std::chrono::duration<Rep, Period> d) {
    return try_lock() || lock_contended(detail::deadline_after(d));
  }
  template <class Clock, class Duration>
  bool try_lock_until(std::chrono::time_point<Clock, Duration> t) {
    return try_lock() || lock_contended(detail::deadline_at(t));
  }
};

}  // namespace coir
