// So many fibers increment one counter under one mutex; one fiber alone is the uncontended case.
#pragma once

#include <mutex>

#include <coir/mutex.hpp>
#include <coir/runtime.hpp>
#include <coir/wait_group.hpp>

#include "measure.hpp"

namespace bench {

inline constexpr int lockings = 8'000'000;

inline seconds lock_in_turn(int fibers) {
  const stopwatch time;
  coir::mutex lock;
  coir::wait_group done;
  int counter = 0;
  done.add(fibers);
  for (int i = 0; i < fibers; ++i) {
    coir::go([&lock, &done, &counter, each = lockings / fibers] {
      for (int n = 0; n < each; ++n) {
        const std::lock_guard guard(lock);
        ++counter;
      }
      done.done();
    });
  }
  done.wait();
  const seconds took = time.elapsed();
  check(counter == lockings, "mutex");
  return took;
}

}  // namespace bench
