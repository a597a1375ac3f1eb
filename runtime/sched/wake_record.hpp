// How eagerly pushes on one processor wake an idle worker, learned from what became of the last wake-ups (idle.cpp).
// Any thread reads and writes it. All of it is hints.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

class wake_record {
 public:
  /// By the coarse time: whether the last wake-ups were for nothing, so that pushes wake nobody for a while.
  bool in_vain(std::int64_t time) const noexcept { return time < none_until_.load(std::memory_order_relaxed); }

  /// Pushes wake nobody for twice as long as the last time.
  void note_useless(std::int64_t time) noexcept {
    const std::uint32_t useless = std::min(useless_.load(std::memory_order_relaxed), most_useless);
    none_until_.store(time + (first_penalty << useless), std::memory_order_relaxed);
    useless_.store(useless + 1, std::memory_order_relaxed);
  }

  void forget_useless() noexcept {
    none_until_.store(0, std::memory_order_relaxed);
    useless_.store(0, std::memory_order_relaxed);
  }

  // The heads of the processor's rings when a worker was last woken from here. Work that is still there has waited for
  // as long as the wake-up took.
  std::atomic<std::uint32_t> offered_ready{0};
  std::atomic<std::uint32_t> offered_fresh{0};
  std::atomic<std::uint32_t> offered_yielded{0};

 private:
  static constexpr std::int64_t first_penalty = 400'000;  // ns without wake-ups, after one that found nothing
  static constexpr std::uint32_t most_useless = 5;        // so often the penalty is doubled at most: to 13 ms

  std::atomic<std::uint32_t> useless_{0};  // in a row
  std::atomic<std::int64_t> none_until_{0};
};

}  // namespace coir::detail
