// A million fibers blocked in a receive on one channel: how long until they are, what memory they hold, and how long
// until all have ended once the channel is closed. Cold is the honest way: run it once in a process.
#pragma once

#include <atomic>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>
#include <coir/wait_group.hpp>

#include "measure.hpp"

namespace bench {

inline constexpr int parked_fibers = 1'000'000;

struct parked_result {
  seconds create;
  double resident_bytes;  ///< a fiber
  seconds wake;
};

inline parked_result parked(int fibers = parked_fibers) {
  parked_result result{};
  const std::int64_t before = resident_bytes();
  coir::wait_group done;
  std::atomic<int> arrived{0};
  auto never = coir::make_chan<void>();

  const stopwatch create;
  done.add(fibers);
  for (int i = 0; i < fibers; ++i) {
    coir::go([&done, &arrived, &never] {
      arrived.fetch_add(1, std::memory_order_relaxed);  // a count, read by the loop below; orders nothing
      never.recv();
      done.done();
    });
  }
  while (arrived.load(std::memory_order_relaxed) < fibers) coir::yield();
  result.create = create.elapsed();
  result.resident_bytes = static_cast<double>(resident_bytes() - before) / fibers;

  const stopwatch wake;
  never.close();
  done.wait();
  result.wake = wake.elapsed();
  return result;
}

}  // namespace bench
