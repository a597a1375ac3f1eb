// What the idle protocol, stealing and the monitor have cost so far: for <coir/metrics.hpp> alone. All of it is counted
// beside a system call or a search, so that a shared cache line does not matter.
#pragma once

#include <atomic>
#include <cstdint>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

class rare_counter {
 public:
  void add() noexcept { value_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

struct alignas(64) idle_costs {
  rare_counter wakes;          // workers woken to search
  rare_counter useless_wakes;  // of them, those that found nothing
  rare_counter searches;       // of workers that had run dry, or were woken
  rare_counter looks;          // of the monitor at all processors
  rare_counter futex_calls;    // by workers, wakers of workers, and the monitor
  rare_counter membarriers;    // by workers that go to sleep, thieves, and the monitor
};

}  // namespace coir::detail
