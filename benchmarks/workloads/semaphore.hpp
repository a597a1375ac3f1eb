// A semaphore: acquired and released by one fiber; and by eight that share three permits and yield while they hold one,
// so that most of them wait.
#pragma once

#include "counts.hpp"
#include "measure.hpp"

namespace bench {

template <class Fibers>
seconds acquire_uncontended(int times = lockings) {
  const stopwatch time;
  typename Fibers::semaphore permit(1);
  int counter = 0;
  Fibers::side_by_side(1, [&] {
    for (int n = 0; n < times; ++n) {
      permit.acquire();
      ++counter;
      permit.release();
    }
  });
  const seconds took = time.elapsed();
  check(counter == times, "semaphore");
  return took;
}

template <class Fibers>
seconds acquire_contended(int times = contended_lockings) {
  constexpr int fibers = 8;
  const stopwatch time;
  typename Fibers::semaphore few(permits);
  Fibers::side_by_side(fibers, [&few, each = times / fibers] {
    for (int n = 0; n < each; ++n) {
      few.acquire();
      Fibers::yield();
      few.release();
    }
  });
  const seconds took = time.elapsed();
  for (int i = 0; i < permits; ++i) check(few.try_acquire(), "semaphore");
  check(!few.try_acquire(), "semaphore");
  return took;
}

}  // namespace bench
