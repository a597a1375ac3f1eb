// Whether an exploration is under way, on any thread of the process.
#pragma once

#include <atomic>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

class explorations {
 public:
  static bool any_under_way() noexcept { return count_.load(std::memory_order_relaxed) != 0; }

  /// While an object lives, one more exploration is under way.
  explorations() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  ~explorations() { count_.fetch_sub(1, std::memory_order_relaxed); }
  explorations(const explorations&) = delete;
  explorations& operator=(const explorations&) = delete;

 private:
  static inline std::atomic<int> count_{0};
};

}  // namespace coir::detail
