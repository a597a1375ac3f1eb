#include "watchdog.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <coir/detail/abi.hpp>

#include "sched/registry.hpp"

namespace coir::inline COIR_ABI::detail {

watchdog::watchdog(double max_seconds, source_location at)
    : max_seconds_(max_seconds), at_(at), thread_(runtime_threads::start([this] { watch(); })) {}

watchdog::~watchdog() {
  runtime_threads::forget(1);
  {
    const std::lock_guard locked(lock_);
    done_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void watchdog::watch() {
  const auto longest = std::chrono::duration<double>(std::clamp(max_seconds_, 0.001, 1e6));
  std::unique_lock locked(lock_);
  auto since = std::chrono::steady_clock::now();
  std::uint64_t seen = 0;
  while (!ended_.wait_for(locked, longest / 4, [this] { return done_; })) {
    const auto now = std::chrono::steady_clock::now();
    if (const std::uint64_t current = schedule_.load(std::memory_order_relaxed); current != seen) {
      seen = current;
      since = now;
    }
    if (now - since < longest) continue;
    std::fprintf(stderr,
                 "coir: fatal: a schedule of the exploration at %s:%u has taken more than %g seconds. Its thread is "
                 "blocked outside of coir (a std::mutex held across a decision?), or loops without a decision.\n",
                 at_.file_name(), at_.line(), max_seconds_);
    std::fflush(stderr);
    std::abort();
  }
}

}  // namespace coir::detail
