// Virtual time for tests: an hour passes in microseconds.
//
//   coir::simulate([] {
//     const coir::clock::time_point before = coir::clock::now();
//     coir::sleep_for(1h);
//     assert(coir::clock::now() - before == 1h);
//   });
//
// Inside, all of coir goes by a clock that stands still while any fiber can run. When all are blocked it jumps to the
// next deadline. Nothing of coir reads the real clock there. What goes by std::chrono's clocks does not know of it: use
// coir::clock.
#pragma once

#include <chrono>
#include <type_traits>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/runtime.hpp>

namespace coir::inline COIR_ABI {

/// The steady clock of the calling fiber's runtime: virtual in simulate() and in an exploration, where it starts at the
/// same instant each time; std::chrono::steady_clock elsewhere. Its time points are steady_clock's, for sleep_until()
/// and all other deadlines.
struct clock {
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr bool is_steady = true;

  static time_point now() noexcept {
    return time_point(std::chrono::duration_cast<duration>(std::chrono::nanoseconds(detail::now())));
  }
};

/// Blocks the calling fiber until every other fiber of its runtime is blocked (those in settle() are, too); time does
/// not move meanwhile. A cancellation point. Throws std::logic_error outside of simulate() and explorations,
/// not_in_runtime outside a fiber.
void settle();

/// run() in virtual time, on one processor: the same program runs in the same way each time. Time stands still while a
/// fiber waits for a descriptor or is in blocking(), and moves on though a plain thread may be about to wake a fiber.
/// Returns what f returns; throws what run() does, `deadlock` included.
template <class F>
auto simulate(F&& f, source_location at = source_location::current()) -> std::invoke_result_t<F&> {
  detail::check_run_outside();
  const options o;
  runtime rt{o, detail::in_virtual_time{}};
  return detail::run_in(rt, o, f, at);
}

}  // namespace coir
