// Start a million empty fibers from one, and wait for all.
#pragma once

#include <coir/runtime.hpp>
#include <coir/wait_group.hpp>

#include "counts.hpp"
#include "measure.hpp"

namespace bench {

inline seconds spawn_join() {
  const stopwatch time;
  coir::wait_group done;
  done.add(spawned_fibers);
  for (int i = 0; i < spawned_fibers; ++i) coir::go([&done] { done.done(); });
  done.wait();
  return time.elapsed();
}

}  // namespace bench
