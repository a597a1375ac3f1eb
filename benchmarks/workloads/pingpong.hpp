// Two fibers and two unbuffered channels: a value there and back.
#pragma once

#include <coir/chan.hpp>
#include <coir/runtime.hpp>

#include "counts.hpp"
#include "measure.hpp"

namespace bench {

inline seconds ping_pong() {
  auto ping = coir::make_chan<int>();
  auto pong = coir::make_chan<int>();
  coir::go([ping, pong] {
    for (int v : ping) pong.send(v + 1);
  });
  const stopwatch time;
  int v = 0;
  for (int i = 0; i < round_trips; ++i) {
    ping.send(v);
    v = *pong.recv();
  }
  const seconds took = time.elapsed();
  ping.close();
  check(v == round_trips, "pingpong");
  return took;
}

}  // namespace bench
