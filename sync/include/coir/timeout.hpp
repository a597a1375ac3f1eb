// timeout(d, f): runs f, but not for longer than d.
//
//   page p = coir::timeout(200ms, [&] { return fetch(url); });  // throws coir::timed_out
//
// f runs in the calling fiber (or plain thread). When the time is over, the call that f is blocked in throws
// `cancelled`, and so does every later call that would block. f unwinds, and timeout() throws `timed_out`. A call that
// need not block does not check the time, and code that computes is not interrupted. An uncancellable section defers
// the expiry. So does a wait for a lock (park.hpp: lock_wait), since locking is not a cancellation point; use
// timed_mutex to bound that wait.
//
// Timeouts nest. Whichever timeout is over, the blocked call throws `cancelled`. Only the timeout() whose own time is
// over turns it into `timed_out`. So the expiry of an outer timeout passes through the inner ones as `cancelled`. When
// timeout() is left, in whatever way, nothing of its expiry remains.
#pragma once

#include <chrono>
#include <type_traits>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/alarm.hpp>
#include <coir/detail/is_async.hpp>
#include <coir/detail/park.hpp>
#include <coir/error.hpp>

namespace coir::inline COIR_ABI {

namespace detail {

struct timeout_state;

/// While the scope is open, the calling fiber (or thread) is interrupted from the deadline on. It belongs to that fiber
/// alone.
class timeout_scope {
 public:
  /// Throws what alarm::arm() throws.
  explicit timeout_scope(deadline when);
  ~timeout_scope() { close(); }
  timeout_scope(const timeout_scope&) = delete;
  timeout_scope& operator=(const timeout_scope&) = delete;

  /// Ends the scope. Returns whether it is the reason to unwind: its deadline has passed, and the fiber is not
  /// cancelled for good.
  bool is_the_reason() noexcept {
    close();
    return expired_ && !cancelled_for_good(self_);
  }

 private:
  void close() noexcept;

  waiter& self_;
  timeout_state* state_ = nullptr;  // shared with the alarm, until closed; null: expired from the start
  alarm alarm_;
  bool expired_ = false;  // known once closed
  bool closed_ = false;
};

}  // namespace detail

/// Runs f and returns its result, or throws what f throws. Throws `timed_out` instead if `cancelled` left f and d is
/// over, and the fiber itself has not been cancelled meanwhile. If f swallows `cancelled` and returns, its result
/// stands. d counts from the call. If d is not positive, the first call that would block throws. A pending timeout
/// counts as a timer for deadlock detection. Throws std::bad_alloc. Throws std::system_error if a timer needs a thread
/// that cannot be started: in a plain thread, or in a fiber whose processor was taken away.
template <class Rep, class Period, class F>
std::invoke_result_t<F> timeout(std::chrono::duration<Rep, Period> d, F&& f) {
  detail::check_has_run<std::invoke_result_t<F>>();
  detail::timeout_scope scope(detail::deadline_after(d));
  try {
    return std::forward<F>(f)();
  } catch (const cancelled&) {
    if (!scope.is_the_reason()) throw;
  }
  detail::throw_timed_out();
}

}  // namespace coir
