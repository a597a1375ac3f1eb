// Fifty thousand fibers that sleep for 50 to 150 ms at a time, as those that watch over connections or play a part in a
// simulation: what does a wake-up cost, and how late is it?
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <coir/runtime.hpp>
#include <coir/sleep.hpp>
#include <coir/wait_group.hpp>

#include "latency.hpp"

namespace bench {

inline latency heartbeats() {
  constexpr std::size_t fibers = 50'000;
  constexpr std::size_t beats = 10;
  std::vector<microseconds> late(fibers * beats);
  coir::wait_group ended;
  ended.add(fibers);
  const usage before = usage::now();
  for (std::size_t i = 0; i < fibers; ++i) {
    coir::go([&, i] {
      auto scatter = static_cast<std::uint32_t>(i) * 2'654'435'761U;
      for (std::size_t n = 0; n < beats; ++n) {
        scatter = scatter * 1'664'525U + 1'013'904'223U;
        const auto until = steady::now() + std::chrono::microseconds(50'000 + (scatter >> 8) % 100'000);
        coir::sleep_until(until);
        late[i * beats + n] = steady::now() - until;
      }
      ended.done();
    });
  }
  ended.wait();
  const usage used = usage::now() - before;
  samples times(late.size());
  for (const microseconds each : late) times.record(each);
  return {times, used.cpu};
}

}  // namespace bench
