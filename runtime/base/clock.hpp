// The clock of a runtime: monotonic, in nanoseconds since an arbitrary start. Everything inside a runtime reads the
// time from its scheduler's clock. In a simulation and in an exploration that clock is virtual: it stands still until
// the scheduler, when all fibers are blocked, moves it to the next deadline.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

class runtime_clock {
 public:
  /// Where virtual time begins: early, so that a deadline by another clock is far away rather than long past.
  static constexpr std::int64_t virtual_start = 3'600'000'000'000;

  std::int64_t now() const noexcept {
    if (const std::int64_t time = virtual_.load(std::memory_order_relaxed); time != real) [[unlikely]]
      return time;
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  bool is_virtual() const noexcept { return virtual_.load(std::memory_order_relaxed) != real; }

  /// Makes it virtual, or moves virtual time.
  void set_virtual(std::int64_t time) noexcept { virtual_.store(time, std::memory_order_relaxed); }

 private:
  static constexpr std::int64_t real = 0;

  std::atomic<std::int64_t> virtual_{real};  // plain threads may ask
};

/// For plain threads.
inline std::int64_t monotonic_now() noexcept { return runtime_clock{}.now(); }

}  // namespace coir::detail
