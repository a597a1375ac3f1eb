// Timers that never fire: set and stopped one after the other, put off again and again, and a hundred thousand at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include <coir/time.hpp>

#include "counts.hpp"
#include "measure.hpp"

namespace bench {

inline seconds set_and_stop() {
  const stopwatch time;
  int stopped = 0;
  for (int i = 0; i < timers_in_turn; ++i) {
    coir::timer t = coir::after_func(std::chrono::hours(1), [] {});
    stopped += t.stop() ? 1 : 0;
  }
  const seconds took = time.elapsed();
  check(stopped == timers_in_turn, "timer");
  return took;
}

inline seconds reset_timer() {
  coir::timer t = coir::after_func(std::chrono::hours(1), [] {});
  const stopwatch time;
  int pending = 0;
  for (int i = 0; i < timer_resets; ++i) pending += t.reset(timer_time(i)) ? 1 : 0;
  const seconds took = time.elapsed();
  check(pending == timer_resets, "timer reset");
  return took;
}

inline seconds set_and_stop_all() {
  const stopwatch time;
  int stopped = 0;
  for (int n = 0; n < timer_batches; ++n) {
    std::vector<coir::timer> timers;
    timers.reserve(static_cast<std::size_t>(timers_at_once));
    for (int i = 0; i < timers_at_once; ++i) timers.push_back(coir::after_func(timer_time(i), [] {}));
    for (coir::timer& t : timers) stopped += t.stop() ? 1 : 0;
  }
  const seconds took = time.elapsed();
  check(stopped == timers_at_once * timer_batches, "timers");
  return took;
}

}  // namespace bench
