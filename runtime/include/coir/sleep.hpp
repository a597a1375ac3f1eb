// Sleeping, in a fiber (the processor runs others meanwhile) or in a plain thread. A sleep is never early. How late it
// is depends on the load: typically some tens of microseconds. While a processor has more than one timer in 8 us, it
// fires them in bursts, and a sleep may be up to 0.5 ms later. Any duration is allowed: zero and negative ones return
// at once, and hours::max() sleeps on.
#pragma once

#include <chrono>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>

namespace coir::inline COIR_ABI {

/// Blocks for at least d. A cancellation point unless it returns at once: throws `cancelled` if the calling fiber is
/// cancelled.
template <class Rep, class Period>
void sleep_for(std::chrono::duration<Rep, Period> d) {
  if (d > d.zero()) detail::park_until(detail::deadline_after(d));
}

/// Blocks until t. Throws as sleep_for(). A clock other than steady_clock is read once, at the call: later adjustments
/// of that clock have no effect.
template <class Clock, class Duration>
void sleep_until(std::chrono::time_point<Clock, Duration> t) {
  detail::sleep_until_deadline(detail::deadline_at(t));
}

}  // namespace coir
