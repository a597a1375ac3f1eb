// Ends the process, with a report, if one schedule takes too long in real time: the only thread is blocked, or loops
// without a decision, and nothing can unwind that.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include <coir/detail/abi.hpp>
#include <coir/explore.hpp>

namespace coir::inline COIR_ABI::detail {

class watchdog {
 public:
  watchdog(double max_seconds, source_location at);
  ~watchdog();
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;

  /// Another schedule begins.
  void next() noexcept { schedule_.store(schedule_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }

 private:
  void watch();

  const double max_seconds_;
  const source_location at_;
  std::atomic<std::uint64_t> schedule_{0};
  std::mutex lock_;  // guards the next
  bool done_ = false;
  std::condition_variable ended_;
  std::thread thread_;
};

}  // namespace coir::detail
