// The skynet benchmark: a tree of fan-out 10 whose million leaves each send their number up; each node has a channel
// for its children and sends the sum on.
#pragma once

#include <cstdint>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>

#include "counts.hpp"
#include "measure.hpp"

namespace bench {

inline void skynet_node(const coir::chan<std::int64_t>& up, std::int64_t first, std::int64_t leaves) {
  if (leaves == 1) return up.send(first);
  auto down = coir::make_chan<std::int64_t>();
  const std::int64_t each = leaves / skynet_fan_out;
  for (std::int64_t i = 0; i < skynet_fan_out; ++i)
    coir::go([down, child = first + i * each, each] { skynet_node(down, child, each); });
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < skynet_fan_out; ++i) sum += *down.recv();
  up.send(sum);
}

inline seconds skynet() {
  const stopwatch time;
  auto root = coir::make_chan<std::int64_t>();
  coir::go([root] { skynet_node(root, 0, skynet_leaves); });
  const std::int64_t sum = *root.recv();
  const seconds took = time.elapsed();
  check(sum == skynet_leaves * (skynet_leaves - 1) / 2, "skynet");
  return took;
}

}  // namespace bench
