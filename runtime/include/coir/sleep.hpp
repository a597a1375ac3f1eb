// Sleeping. From a fiber (the processor runs others meanwhile) or a plain thread. Never early; how late depends on the
// load: typically some tens of microseconds, and up to 0.5 ms more while a processor's timers come thicker than one in
// 8 us, since they are fired in bursts then. Any duration: zero and negative ones return at once, hours::max() sleeps
// on.
#pragma once

#include <chrono>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>

namespace coir::inline COIR_ABI {

/// Blocks for at least d. Throws `cancelled` if the calling fiber is cancelled (not when it returns at once).
template <class Rep, class Period>
void sleep_for(std::chrono::duration<Rep, Period> d) {
  if (d > d.zero()) detail::park_until(detail::deadline_after(d));
}

/// Blocks until t. A clock other than steady_clock is read at the call: later adjustments of it are not followed.
template <class Clock, class Duration>
void sleep_until(std::chrono::time_point<Clock, Duration> t) {
  detail::sleep_until_deadline(detail::deadline_at(t));
}

}  // namespace coir
