// shared_mutex: many readers or one writer; as std::shared_timed_mutex, for fibers and OS threads alike.
// It is fair to readers and writers: all are served in the order in which they came, and neighbouring readers together.
// So a new reader waits behind a waiting writer, and a writer waits behind the readers that came before it. A reader
// must not lock again what it holds: a writer may have queued in between, and both would wait forever.
//
// Thread safety: all members may be called at once. An unlock() happens before the return of each lock after it. An
// unlock_shared() happens before the return of the next exclusive lock. std::unique_lock, std::shared_lock and
// std::scoped_lock work.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/permits.hpp>

namespace coir::inline COIR_ABI {

/// As std::shared_mutex, for fibers and threads.
class shared_mutex {
  using taking = detail::permits::request;

 public:
  constexpr shared_mutex() noexcept = default;
  shared_mutex(const shared_mutex&) = delete;
  shared_mutex& operator=(const shared_mutex&) = delete;

  /// Blocks until no other fiber or thread holds the mutex, and takes it. Not recursive. No member is a cancellation
  /// point; see mutex.hpp.
  void lock() { permits_.acquire(all); }
  /// Takes the mutex if it is free. Never blocks.
  bool try_lock() noexcept { return permits_.try_acquire(all); }
  /// As lock(), but gives up and returns false when the time is over.
  template <class Rep, class Period>
  bool try_lock_for(std::chrono::duration<Rep, Period> d) {
    return permits_.acquire(all, detail::deadline_after(d));
  }
  /// The same until a point in time.
  template <class Clock, class Duration>
  bool try_lock_until(std::chrono::time_point<Clock, Duration> t) {
    return permits_.acquire(all, detail::deadline_at(t));
  }
  /// `co_await m.async_lock()` and so on in a coir::async: as lock(), try_lock_for(d) and try_lock_until(t), but the
  /// coroutine waits instead of a fiber, in the same queue. The coroutine may unlock the mutex on another thread. For
  /// RAII, adopt it:
  /// `std::unique_lock held(m, std::adopt_lock);`. Those with a time throw std::bad_alloc, and std::system_error if the
  /// thread for a timer cannot be started.
  detail::queue_awaiter<taking> async_lock() noexcept { return async_take(all); }
  /// For coroutines: `co_await` of it does what try_lock_for() does.
  template <class Rep, class Period>
  detail::timed_queue_awaiter<taking> async_try_lock_for(std::chrono::duration<Rep, Period> d) {
    return async_take(all, detail::deadline_after(d));
  }
  /// For coroutines: `co_await` of it does what try_lock_until() does.
  template <class Clock, class Duration>
  detail::timed_queue_awaiter<taking> async_try_lock_until(std::chrono::time_point<Clock, Duration> t) {
    return async_take(all, detail::deadline_at(t));
  }
  /// Never blocks. Throws std::logic_error if it is not exclusively held.
  void unlock() {
    if (!permits_.release(all)) [[unlikely]]
      refuse_unlock();
  }

  /// Blocks while a writer holds the mutex or has waited for it before. Not a cancellation point.
  void lock_shared() { permits_.acquire(1); }
  /// Takes the mutex as a reader if that is possible at once. Never blocks.
  bool try_lock_shared() noexcept { return permits_.try_acquire(1); }
  /// As lock_shared(), but gives up and returns false when the time is over.
  template <class Rep, class Period>
  bool try_lock_shared_for(std::chrono::duration<Rep, Period> d) {
    return permits_.acquire(1, detail::deadline_after(d));
  }
  /// The same until a point in time.
  template <class Clock, class Duration>
  bool try_lock_shared_until(std::chrono::time_point<Clock, Duration> t) {
    return permits_.acquire(1, detail::deadline_at(t));
  }
  /// The same for readers. A std::shared_lock adopts it.
  detail::queue_awaiter<taking> async_lock_shared() noexcept { return async_take(1); }
  /// For coroutines: `co_await` of it does what try_lock_shared_for() does.
  template <class Rep, class Period>
  detail::timed_queue_awaiter<taking> async_try_lock_shared_for(std::chrono::duration<Rep, Period> d) {
    return async_take(1, detail::deadline_after(d));
  }
  /// For coroutines: `co_await` of it does what try_lock_shared_until() does.
  template <class Clock, class Duration>
  detail::timed_queue_awaiter<taking> async_try_lock_shared_until(std::chrono::time_point<Clock, Duration> t) {
    return async_take(1, detail::deadline_at(t));
  }
  /// Never blocks. Throws std::logic_error if no reader holds it.
  void unlock_shared() {
    // A free permit says that no writer holds the mutex.
    if (!permits_.release(1, 1)) [[unlikely]]
      refuse_unlock_shared();
  }

 private:
  detail::queue_awaiter<taking> async_take(detail::permits::count n) noexcept {
    return detail::queue_awaiter<taking>(std::in_place, permits_, n);
  }
  detail::timed_queue_awaiter<taking> async_take(detail::permits::count n, detail::deadline until) noexcept {
    return detail::timed_queue_awaiter<taking>(until, permits_, n);
  }

  [[noreturn]] static void refuse_unlock();
  [[noreturn]] static void refuse_unlock_shared();

  // A reader takes one permit, a writer takes all. There are never so many readers.
  static constexpr detail::permits::count all = detail::permits::count{1} << 62;

  detail::permits permits_{all, "shared_mutex lock", detail::permits::kind::lock};
};

}  // namespace coir
