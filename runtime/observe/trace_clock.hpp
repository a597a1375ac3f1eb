// The time stamps of a trace: the CPU's time stamp counter where it is constant and common to all cores, since the
// system's clock takes twice as long. Otherwise it is the system's clock. The writer of the trace converts ticks to
// nanoseconds, by one factor for the whole process.
#pragma once

#include <cstdint>

#include <coir/detail/abi.hpp>

#include "base/clock.hpp"
#include "base/raw_calls.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace coir::inline COIR_ABI::detail {

/// Set before the first trace begins, and never again.
inline constinit bool trace_by_counter = false;

inline std::uint64_t trace_ticks() noexcept {
#if defined(__x86_64__)
  if (trace_by_counter) [[likely]]
    return __rdtsc();
#endif
  return static_cast<std::uint64_t>(monotonic_now());
}

/// Made before the first time stamp is taken; one for the process.
class trace_clock {
 public:
  trace_clock() noexcept {
    trace_by_counter = has_counter();
    first_ticks_ = trace_ticks();
    first_ns_ = monotonic_now();
  }

  /// Nanoseconds a tick. The first answer is kept; it may take calibrate_for.
  double nanoseconds_per_tick() noexcept {
    if (!trace_by_counter) return 1;
    if (factor_ == 0) {
      while (monotonic_now() - first_ns_ < calibrate_for) raw_sleep(calibrate_for / 4);
      const std::uint64_t ticks = trace_ticks() - first_ticks_;
      factor_ = static_cast<double>(monotonic_now() - first_ns_) / static_cast<double>(ticks);
    }
    return factor_;
  }

 private:
  static constexpr std::int64_t calibrate_for = 10'000'000;  // ns

  static bool has_counter() noexcept {
#if defined(__x86_64__)
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1U << 8)) != 0;  // invariant
#else
    return false;
#endif
  }

  std::uint64_t first_ticks_ = 0;
  std::int64_t first_ns_ = 0;
  double factor_ = 0;
};

}  // namespace coir::detail
