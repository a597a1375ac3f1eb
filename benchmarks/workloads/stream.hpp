// Values through one channel, from so many producers to as many consumers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>
#include <coir/wait_group.hpp>

#include "counts.hpp"
#include "measure.hpp"

namespace bench {

inline seconds stream(int pairs, std::size_t capacity, int values) {
  const stopwatch time;
  auto ch = coir::make_chan<int>(capacity);
  std::atomic<std::int64_t> sum{0};
  coir::wait_group producers;
  coir::wait_group consumers;
  producers.add(pairs);
  consumers.add(pairs);
  for (int p = 0; p < pairs; ++p) {
    coir::go([ch, &producers, each = values / pairs] {
      for (int i = 0; i < each; ++i) ch.send(i);
      producers.done();
    });
    coir::go([ch, &sum, &consumers] {
      std::int64_t own = 0;
      for (int v : ch) own += v;
      sum.fetch_add(own, std::memory_order_relaxed);  // read after consumers.wait()
      consumers.done();
    });
  }
  producers.wait();
  ch.close();
  consumers.wait();
  const seconds took = time.elapsed();
  const std::int64_t each = values / pairs;
  check(sum.load(std::memory_order_relaxed) == pairs * (each * (each - 1) / 2), "stream");
  return took;
}

}  // namespace bench
