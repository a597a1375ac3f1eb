// Virtual time for tests: an hour passes in microseconds.
//
//   coir::simulate([] {
//     const coir::clock::time_point before = coir::clock::now();
//     coir::sleep_for(1h);
//     assert(coir::clock::now() - before == 1h);
//   });
//
// Inside simulate(), all of coir uses a clock that stands still while any fiber can run. When all fibers are blocked,
// this clock jumps to the next deadline. Nothing of coir reads the real clock there. Code that uses the clocks of
// std::chrono does not see virtual time. Use coir::clock instead.
#pragma once

#include <chrono>
#include <type_traits>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/runtime.hpp>

namespace coir::inline COIR_ABI {

/// The steady clock of the calling fiber's runtime. In simulate() and in an exploration it is virtual, and starts at
/// the same instant each time. Elsewhere it is std::chrono::steady_clock. Its time points are those of steady_clock,
/// for sleep_until() and all other deadlines.
struct clock {
  using duration = std::chrono::steady_clock::duration;      ///< that of steady_clock
  using rep = duration::rep;                                 ///< the number in a duration
  using period = duration::period;                           ///< the unit of a duration, in seconds
  using time_point = std::chrono::steady_clock::time_point;  ///< that of steady_clock
  static constexpr bool is_steady = true;                    ///< now() never goes back

  /// The present time. Does not block.
  static time_point now() noexcept {
    return time_point(std::chrono::duration_cast<duration>(std::chrono::nanoseconds(detail::now())));
  }
};

/// Blocks the calling fiber until every other fiber of its runtime is blocked. A fiber in settle() counts as blocked.
/// Time does not move meanwhile. A cancellation point: throws `cancelled`. Throws std::logic_error outside simulate()
/// and explorations, and not_in_runtime outside a fiber.
void settle();

/// As run(), but in virtual time and on one processor. The same program runs in the same way each time. Time stands
/// still while a fiber waits for a descriptor or is in blocking(). Time moves on even if a plain thread is about to
/// wake a fiber. Returns what f returns. Throws what run() throws, including `deadlock`.
template <class F>
auto simulate(F&& f, source_location at = source_location::current()) -> std::invoke_result_t<F&> {
  detail::check_run_outside();
  const options o;
  runtime rt{o, detail::in_virtual_time{}};
  return detail::run_in(rt, o, f, at);
}

}  // namespace coir
