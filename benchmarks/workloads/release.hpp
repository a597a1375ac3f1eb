// Fork and join beside idle processors: one fiber releases others by closing a channel, and each of them, itself
// included, computes for 1 ms. How much longer does it take than it would if every processor worked at once?
#pragma once

#include <chrono>
#include <cstddef>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>
#include <coir/sleep.hpp>
#include <coir/wait_group.hpp>

#include "latency.hpp"

namespace bench {

inline constexpr std::chrono::milliseconds released_work(1);

/// `rounds`: of 1 ms each, that so many fibers and the releaser need on two processors.
inline latency release(int waiters, int rounds) {
  samples beyond;
  seconds cpu{};
  while (beyond.wants_more()) {
    auto gate = coir::make_chan<void>();
    coir::wait_group ended;
    ended.add(waiters);
    for (int i = 0; i < waiters; ++i) {
      coir::go([&ended, gate] {
        gate.recv();
        compute(released_work);
        ended.done();
      });
    }
    coir::sleep_for(std::chrono::milliseconds(2));  // the waiters wait, and the processors are idle
    const usage before = usage::now();
    const auto start = steady::now();
    gate.close();
    compute(released_work);
    ended.wait();
    beyond.record(steady::now() - start - rounds * released_work);
    cpu += (usage::now() - before).cpu;
  }
  return {beyond, cpu};
}

inline latency release_one() { return release(1, 1); }
inline latency release_three() { return release(3, 2); }

}  // namespace bench
