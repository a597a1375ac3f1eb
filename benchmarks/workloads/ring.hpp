// A thousand fibers in a ring of unbuffered channels pass a token that counts its hops down.
#pragma once

#include <cstddef>
#include <vector>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>

#include "counts.hpp"
#include "measure.hpp"

namespace bench {

inline seconds ring() {
  std::vector<coir::chan<int>> channels;
  for (std::size_t i = 0; i < ring_fibers; ++i) channels.push_back(coir::make_chan<int>());
  auto finished = coir::make_chan<int>();
  for (std::size_t i = 0; i < ring_fibers; ++i) {
    coir::go([in = channels[i], out = channels[(i + 1) % ring_fibers], finished] {
      for (int left : in) {
        if (left == 0)
          finished.send(left);
        else
          out.send(left - 1);
      }
    });
  }
  const stopwatch time;
  channels[0].send(hops);
  finished.recv();
  const seconds took = time.elapsed();
  for (auto& ch : channels) ch.close();
  return took;
}

}  // namespace bench
