// A counter or a gauge. One thread at a time changes it, without atomic read-modify-writes; any thread may read it. The
// owner's protocol says which thread may change it (mostly: the holder of the processor). Relaxed: a reading says
// nothing but the number, unless the function says otherwise.
#pragma once

#include <atomic>
#include <cstdint>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

class counter {
 public:
  [[gnu::always_inline]] inline void add(std::uint64_t n = 1) noexcept { set(value() + n); }
  [[gnu::always_inline]] inline void subtract(std::uint64_t n = 1) noexcept { set(value() - n); }
  [[gnu::always_inline]] inline void set(std::uint64_t n) noexcept { value_.store(n, std::memory_order_relaxed); }
  [[gnu::always_inline]] inline std::uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

  /// A thread that reads this change with value_acquire() sees everything that happened before it.
  [[gnu::always_inline]] inline void add_release() noexcept { value_.store(value() + 1, std::memory_order_release); }
  std::uint64_t value_acquire() const noexcept { return value_.load(std::memory_order_acquire); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace coir::detail
