// A shared_mutex: read by one fiber; and by eight of which each writes now and then, and yields while it does, so that
// the others queue, readers and writers.
#pragma once

#include <cstdint>
#include <mutex>
#include <shared_mutex>

#include "counts.hpp"
#include "measure.hpp"

namespace bench {

template <class Fibers>
seconds read_uncontended() {
  const stopwatch time;
  typename Fibers::shared_mutex lock;
  int counter = 0;
  Fibers::side_by_side(1, [&] {
    for (int n = 0; n < lockings; ++n) {
      const std::shared_lock guard(lock);
      ++counter;
    }
  });
  const seconds took = time.elapsed();
  check(counter == lockings, "shared_mutex");
  return took;
}

template <class Fibers>
seconds read_and_write() {
  constexpr int fibers = 8;
  constexpr int writes = contended_lockings / fibers / lockings_a_write;
  const stopwatch time;
  typename Fibers::shared_mutex lock;
  int written = 0;
  Fibers::side_by_side(fibers, [&] {
    int seen = 0;
    for (int n = 0; n < writes; ++n) {
      {
        const std::lock_guard guard(lock);
        const int before = written;
        Fibers::yield();
        written = before + 1;
      }
      for (int r = 1; r < lockings_a_write; ++r) {
        const std::shared_lock guard(lock);
        check(written > seen || r > 1, "shared_mutex");
        seen = written;
      }
    }
  });
  const seconds took = time.elapsed();
  check(written == fibers * writes, "shared_mutex");
  return took;
}

}  // namespace bench
