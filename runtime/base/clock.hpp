// The clock of a runtime: monotonic, in nanoseconds since an arbitrary start. Everything inside a runtime reads the
// time from its scheduler's clock, so that a test can later put virtual time in its place.
#pragma once

#include <chrono>
#include <cstdint>

namespace coir::detail {

class runtime_clock {
 public:
  std::int64_t now() const noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

/// For plain threads.
inline std::int64_t monotonic_now() noexcept { return runtime_clock{}.now(); }

}  // namespace coir::detail
