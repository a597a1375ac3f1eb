// How long woken fibers wait until they run, by powers of two (<coir/metrics.hpp> has the bounds). Sampled: a processor
// times the first wake-up after each period of picks, and after it was idle; foreign threads every few wake-ups. The
// fiber carries the time, in fiber::runnable_since, and runnable::kind::timed marks it, so that wake-ups
// that are not sampled cost no more than a test of processor::time_next_wake. Written by the holder of the processor
// that runs it.
#pragma once

#include <array>
#include <cstdint>

#include <coir/detail/abi.hpp>
#include <coir/metrics.hpp>

#include "base/counter.hpp"

namespace coir::inline COIR_ABI::detail {

class wake_latency {
 public:
  static constexpr std::uint64_t picks_between = 256;
  static constexpr std::uint64_t injections_between = 8;

  void record(std::int64_t ns) noexcept {
    const std::int64_t waited = ns < 0 ? 0 : ns;
    counts_[latency_histogram::bucket_of(waited)].add();
    sum_.add(static_cast<std::uint64_t>(waited));
  }

  latency_histogram snapshot() const {
    latency_histogram h;
    for (std::size_t i = 0; i < counts_.size(); ++i) h.counts[i] = counts_[i].value();
    h.sum = std::chrono::nanoseconds(static_cast<std::int64_t>(sum_.value()));
    return h;
  }

 private:
  std::array<counter, latency_histogram::buckets> counts_;
  counter sum_;  // ns
};

}  // namespace coir::detail
