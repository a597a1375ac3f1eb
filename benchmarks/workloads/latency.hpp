// What the latency workloads share: their samples, and work that takes a given time.
//
// The work reads the clock until the time is over, so it takes as long on a slow machine as on a fast one, and the
// peers do the same.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <vector>

#include "measure.hpp"

namespace bench {

using steady = std::chrono::steady_clock;
using microseconds = std::chrono::duration<double, std::micro>;

inline constexpr std::size_t latency_samples = 400;
inline constexpr std::chrono::seconds latency_limit{6};  ///< then a row ends with the samples that it has

inline void compute(std::chrono::nanoseconds time) {
  for (const auto start = steady::now(); steady::now() - start < time;) {
  }
}

class samples {
 public:
  explicit samples(std::size_t wanted = latency_samples) : wanted_(wanted) { times_.reserve(wanted); }

  void record(microseconds time) { times_.push_back(time.count()); }
  void append(const samples& other) { times_.insert(times_.end(), other.times_.begin(), other.times_.end()); }

  /// Until as many have been recorded as were wanted, or the time is over.
  bool wants_more() const { return times_.size() < wanted_ && since_.elapsed() < latency_limit; }

  std::size_t size() const { return times_.size(); }
  std::size_t wanted() const { return wanted_; }

  /// The least of the recorded times, in microseconds, that so large a part of all does not exceed.
  double quantile(double part) const {
    check(!times_.empty(), "samples");
    std::vector<double> sorted = times_;
    std::sort(sorted.begin(), sorted.end());
    const auto rank = static_cast<std::size_t>(std::ceil(part * static_cast<double>(sorted.size())));
    return sorted[std::max<std::size_t>(rank, 1) - 1];
  }

 private:
  std::size_t wanted_;
  std::vector<double> times_;
  stopwatch since_;
};

struct latency {
  samples times;
  seconds cpu = {};  ///< of the process, for all samples; zero where it says nothing
};

}  // namespace bench
