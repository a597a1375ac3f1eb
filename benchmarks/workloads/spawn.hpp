// Start a million empty fibers from one, and wait for all.
#pragma once

#include <coir/runtime.hpp>
#include <coir/wait_group.hpp>

#include "measure.hpp"

namespace bench {

inline constexpr int spawned_fibers = 1'000'000;

inline seconds spawn_join() {
  const stopwatch time;
  coir::wait_group done;
  done.add(spawned_fibers);
  for (int i = 0; i < spawned_fibers; ++i) coir::go([&done] { done.done(); });
  done.wait();
  return time.elapsed();
}

}  // namespace bench
