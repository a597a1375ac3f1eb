// A number that one thread at a time changes, without atomic read-modify-writes, and that anyone may read: a counter,
// or a gauge. Who may change it is the owner's protocol (mostly: who holds the processor). Relaxed: nothing is
// concluded from a reading but the number, unless it says otherwise.
#pragma once

#include <atomic>
#include <cstdint>

namespace coir::detail {

class counter {
 public:
  [[gnu::always_inline]] inline void add(std::uint64_t n = 1) noexcept { set(value() + n); }
  [[gnu::always_inline]] inline void subtract(std::uint64_t n = 1) noexcept { set(value() - n); }
  [[gnu::always_inline]] inline void set(std::uint64_t n) noexcept { value_.store(n, std::memory_order_relaxed); }
  [[gnu::always_inline]] inline std::uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

  /// What happened before is seen by who reads this change with value_acquire().
  [[gnu::always_inline]] inline void add_release() noexcept { value_.store(value() + 1, std::memory_order_release); }
  std::uint64_t value_acquire() const noexcept { return value_.load(std::memory_order_acquire); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace coir::detail
