// So many fibers increment one counter under one mutex; one fiber alone is the uncontended case.
#pragma once

#include <mutex>

#include "counts.hpp"
#include "measure.hpp"

namespace bench {

template <class Fibers>
seconds lock_in_turn(int fibers) {
  const stopwatch time;
  typename Fibers::mutex lock;
  int counter = 0;
  Fibers::side_by_side(fibers, [&lock, &counter, each = lockings / fibers] {
    for (int n = 0; n < each; ++n) {
      const std::lock_guard guard(lock);
      ++counter;
    }
  });
  const seconds took = time.elapsed();
  check(counter == lockings, "mutex");
  return took;
}

}  // namespace bench
