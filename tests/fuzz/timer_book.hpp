// What is known of one timer: a reference that has no clock of its own, and so gives bounds. It knows nothing of
// threads.
//
//   state     until                                          what may come of it
//   idle      it is set                                      nothing: no tick, no call; stop and reset say false
//   pending   it is stopped (true), or is seen to have       not before `earliest`: a tick (one, or one each period), a
//             fired: a tick, a call, stop or reset           call; then stop and reset may say false. A ticker's say
//             saying false                                   true always
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

namespace coir_fuzz {

using timer_clock = std::chrono::steady_clock;

class timer_book {
 public:
  static constexpr timer_clock::time_point never = timer_clock::time_point::max();

  /// `soon`: within the program; else it never fires. `now`: just before it was set. A ticker has a period.
  void set(timer_clock::time_point now, timer_clock::duration d, bool soon, bool repeats) {
    pending_ = true;
    repeats_ = repeats;
    period_ = d;
    ticks_ = 0;
    earliest_ = !soon ? never : now + std::max(d, timer_clock::duration::zero());
  }

  /// stop() or reset() has said so. Empty: as it may be; else what is wrong.
  std::string prevented(timer_clock::time_point now, bool was_pending) {
    if (was_pending != pending_) {
      if (was_pending) return "it says that it was pending";
      if (repeats_) return "it says that it was not running";
      if (now < earliest_) return "it says that it was not pending before its time";
      fired();
    }
    pending_ = false;
    return {};
  }

  /// A tick that says `at` was received.
  std::string ticked(timer_clock::time_point now, timer_clock::time_point at) {
    if (!pending_) return "a stale tick";
    if (earliest_ == never) return "a tick before its time";
    if (at > now) return "a tick of the future";
    if (at < earliest_ + ticks_ * period_) return "an early tick";
    if (repeats_)
      ++ticks_;
    else
      fired();
    return {};
  }

  void fired() {
    pending_ = false;
    ++fired_;
  }

  bool pending() const noexcept { return pending_; }
  bool soon() const noexcept { return pending_ && earliest_ != never; }
  /// How often it has fired for certain; for after_func(): so often was, or will be, the function called.
  unsigned times_fired() const noexcept { return fired_; }

 private:
  bool pending_ = false;
  bool repeats_ = false;
  timer_clock::time_point earliest_ = never;
  timer_clock::duration period_{};
  int ticks_ = 0;  // received since it was set
  unsigned fired_ = 0;
};

}  // namespace coir_fuzz
