// So many fibers that yield to each other, ten million times in all.
#pragma once

#include <coir/runtime.hpp>
#include <coir/wait_group.hpp>

#include "counts.hpp"
#include "measure.hpp"

namespace bench {

inline seconds yield_in_turn(int fibers) {
  const stopwatch time;
  coir::wait_group done;
  done.add(fibers);
  for (int i = 0; i < fibers; ++i) {
    coir::go([&done, each = yields / fibers] {
      for (int n = 0; n < each; ++n) coir::yield();
      done.done();
    });
  }
  done.wait();
  return time.elapsed();
}

}  // namespace bench
