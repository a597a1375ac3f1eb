// A hundred parked fibers and one that sleeps: what the runtime costs while there is nothing to do.
#pragma once

#include <chrono>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>
#include <coir/sleep.hpp>
#include <coir/wait_group.hpp>

#include "counts.hpp"
#include "measure.hpp"

namespace bench {

inline usage idle(std::chrono::milliseconds duration = std::chrono::seconds(5)) {
  coir::wait_group done;
  auto never = coir::make_chan<void>();
  done.add(idle_fibers);
  for (int i = 0; i < idle_fibers; ++i) {
    coir::go([&done, never] {
      never.recv();
      done.done();
    });
  }
  const usage before = usage::now();
  coir::sleep_for(duration);
  const usage used = usage::now() - before;
  never.close();
  done.wait();
  return used;
}

}  // namespace bench
