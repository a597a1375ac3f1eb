// Time: sleep_for() and sleep_until() (sleep.hpp). Timers and tickers, which send to a channel or call a function when
// a time is over:
//
//   coir::select(coir::on_recv(answers, use), coir::on_recv(coir::after(100ms), [](auto) { give_up(); }));
//
//   coir::ticker beat{1s};
//   for (auto at : beat.c()) report(at);
//
//   coir::timer idle = coir::after_func(30s, [&] { disconnect(); });
//   while (auto m = in.recv()) { handle(*m);  idle.reset(30s); }
//
// The value of a tick is the time at which it was sent. A tick is never early. How late it is depends on the load, as
// for a sleep (sleep.hpp). The channels hold one tick and are never closed.
//
// Any duration is allowed. A zero or negative duration is over at once. hours::max() is clamped to some 290 years.
//
// Fibers and plain threads may use timers. Any number of them may call the members of one timer at a time, except for
// moving and destroying it. A timer that a fiber has set counts with the fiber's runtime: no deadlock is reported while
// the timer is pending, but run() does not wait for it. Once the runtime has ended, the timer never fires.
//
// Happens-before: what a fiber did before it set the timer happens before after_func's f, and before a receive of the
// tick returns.
//
// Semantics: Go's package time, since 1.23: after stop() or reset(), no earlier tick is received.
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <coir/chan.hpp>
#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/detail/delayed_call.hpp>
#include <coir/detail/is_async.hpp>
#include <coir/detail/tick_source.hpp>
#include <coir/sleep.hpp>
#include <coir/source_location.hpp>

namespace coir::inline COIR_ABI {

/// Returns a channel that gets one tick when d is over. If the channel is dropped before, its timer is dropped too, and
/// the memory freed. Does not block. Throws std::bad_alloc. Throws std::system_error if the timer needs a thread that
/// cannot be started: in a plain thread, or in a fiber whose processor was taken away.
template <class Rep, class Period>
[[nodiscard]] recv_chan<std::chrono::steady_clock::time_point> after(std::chrono::duration<Rep, Period> d) {
  using ticks = chan<std::chrono::steady_clock::time_point>;
  return detail::chan_access::make<ticks>(detail::make_ticks(detail::deadline_after(d), 0));
}

class timer;
template <class Rep, class Period, class F>
[[nodiscard]] timer after_func(std::chrono::duration<Rep, Period> d, F&& f,
                               source_location at = source_location::current());

/// Fires once when its time is over: sends a tick to c(), or calls the function of after_func(). Movable. A moved-from
/// timer does not fire. The destructor stops the timer.
class timer {
 public:
  using channel = recv_chan<std::chrono::steady_clock::time_point>;  ///< the type of c()

  /// Throws as after().
  template <class Rep, class Period>
  explicit timer(std::chrono::duration<Rep, Period> d) : ticks_(detail::make_ticks(detail::deadline_after(d), 0)) {}

  /// Takes over the tick or the call of `other`, with its time. `other` does not fire any more.
  timer(timer&& other) noexcept : ticks_(std::move(other.ticks_)), call_(std::exchange(other.call_, nullptr)) {}
  /// The same. The tick or the call that this timer had before is stopped, as by the destructor.
  timer& operator=(timer&& other) noexcept {
    timer taken(std::move(other));
    std::swap(ticks_, taken.ticks_);
    std::swap(call_, taken.call_);
    return *this;
  }
  ~timer() {
    if (ticks_.get() != nullptr) detail::stop_ticks(*ticks_.get());
    if (call_ != nullptr) call_->drop();
  }

  /// The channel that gets the tick. The nil channel for after_func().
  channel c() const noexcept { return detail::chan_access::make<chan<std::chrono::steady_clock::time_point>>(ticks_); }

  /// Stops the timer. True: it was pending, and will not fire. False: it had fired (whether the tick was received or
  /// not) or had been stopped. In both cases an unread tick is discarded, and a call of f that has begun goes on. Never
  /// blocks.
  bool stop() noexcept {
    detail::decide(detail::operation::timer, this);
    if (call_ != nullptr) return call_->stop();
    return ticks_.get() != nullptr && detail::stop_ticks(*ticks_.get());
  }

  /// Stops the timer and lets it fire (again) when d is over. Returns whether it was pending. Throws as after(), and
  /// std::logic_error if the timer was moved from.
  template <class Rep, class Period>
  bool reset(std::chrono::duration<Rep, Period> d) {
    detail::decide(detail::operation::timer, this);
    const detail::deadline due = detail::deadline_after(d);
    if (call_ != nullptr) return call_->restart(due);
    if (ticks_.get() == nullptr) throw std::logic_error("coir: reset of a timer that was moved from");
    return detail::restart_ticks(*ticks_.get(), due, 0);
  }

 private:
  template <class Rep, class Period, class F>
  friend timer after_func(std::chrono::duration<Rep, Period> d, F&& f, source_location at);

  explicit timer(detail::delayed_call* call) noexcept : call_(call) {}

  detail::core_reference ticks_;
  detail::delayed_call* call_ = nullptr;
};

/// Calls f() when d is over, in a fiber of its own in the calling fiber's runtime, unless the timer is stopped or
/// destroyed before. So keep the timer. As with go(), an exception that leaves f ends the process. A pending call does
/// not keep run() from draining; the call is then not made. f is destroyed with the timer or when its last call has
/// returned, whichever is later. After reset(), f may be called again, even while an earlier call is running. Does not
/// block. Throws not_in_runtime outside a fiber, std::bad_alloc, and std::system_error if the fiber's processor was
/// taken away and the thread for a timer cannot be started.
template <class Rep, class Period, class F>
timer after_func(std::chrono::duration<Rep, Period> d, F&& f, source_location at) {
  static_assert(std::is_invocable_v<std::decay_t<F>&>, "coir: a fiber's function takes no arguments (capture instead)");
  detail::check_has_run<std::invoke_result_t<std::decay_t<F>&>>();
  timer t(new detail::delayed_closure<std::decay_t<F>>(std::forward<F>(f), at));
  t.reset(d);
  return t;
}

/// Sends a tick to c() every d, on schedule: the n-th tick is due n times d after the ticker was made or reset. A tick
/// that comes while the tick before is unread is dropped. A tick whose time has passed unnoticed is skipped. So a slow
/// reader gets fewer ticks and no burst. Movable. The destructor stops the ticker.
class ticker {
 public:
  using channel = timer::channel;  ///< the type of c()

  /// Throws std::invalid_argument if the period is not positive; otherwise as after().
  template <class Rep, class Period>
  explicit ticker(std::chrono::duration<Rep, Period> d)
      : ticks_(detail::make_ticks(detail::deadline_after(checked(d)), detail::clamped_nanoseconds(d))) {}

  /// Takes over the channel and the schedule of another ticker, which does not tick any more.
  ticker(ticker&&) noexcept = default;
  /// The same. The schedule that this ticker had before is stopped, as by the destructor.
  ticker& operator=(ticker&& other) noexcept {
    ticker taken(std::move(other));
    std::swap(ticks_, taken.ticks_);
    return *this;
  }
  ~ticker() { stop(); }

  /// The channel that gets the ticks. The nil channel if the ticker was moved from. Does not block.
  channel c() const noexcept { return detail::chan_access::make<chan<std::chrono::steady_clock::time_point>>(ticks_); }

  /// Stops the ticker and discards an unread tick. Returns whether the ticker was running. Never blocks.
  bool stop() noexcept {
    detail::decide(detail::operation::timer, this);
    return ticks_.get() != nullptr && detail::stop_ticks(*ticks_.get());
  }

  /// Starts the ticker anew with the period d. The first tick comes when d is over. Returns whether the ticker was
  /// running. Throws as the constructor; if d is not positive, the ticker goes on as it was. Throws std::logic_error if
  /// the ticker was moved from.
  template <class Rep, class Period>
  bool reset(std::chrono::duration<Rep, Period> d) {
    detail::decide(detail::operation::timer, this);
    const detail::deadline due = detail::deadline_after(checked(d));
    if (ticks_.get() == nullptr) throw std::logic_error("coir: reset of a ticker that was moved from");
    return detail::restart_ticks(*ticks_.get(), due, detail::clamped_nanoseconds(d));
  }

 private:
  template <class Rep, class Period>
  static std::chrono::duration<Rep, Period> checked(std::chrono::duration<Rep, Period> d) {
    if (!(d > d.zero())) throw std::invalid_argument("coir: the period of a ticker must be positive");
    return d;
  }

  detail::core_reference ticks_;
};

}  // namespace coir
