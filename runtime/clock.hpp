// The runtime's monotonic clock, in nanoseconds since an arbitrary start. Everything that reads the time inside the
// runtime reads it here, so that a test can later put virtual time in its place.
#pragma once

#include <chrono>
#include <cstdint>

namespace coir::detail {

inline std::int64_t monotonic_now() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace coir::detail
