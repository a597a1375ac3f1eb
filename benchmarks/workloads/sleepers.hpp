// A hundred thousand fibers that sleep for 0 to 200 ms, evenly spread and in scattered order.
#pragma once

#include <coir/runtime.hpp>
#include <coir/sleep.hpp>
#include <coir/wait_group.hpp>

#include "counts.hpp"
#include "measure.hpp"

namespace bench {

inline sleepers_result sleepers() {
  const usage before = usage::now();
  const stopwatch time;
  coir::wait_group done;
  done.add(sleeping_fibers);
  for (int i = 0; i < sleeping_fibers; ++i) {
    coir::go([&done, d = sleep_time(i)] {
      coir::sleep_for(d);
      done.done();
    });
  }
  done.wait();
  const seconds wall = time.elapsed();
  return {wall, (usage::now() - before).cpu};
}

}  // namespace bench
