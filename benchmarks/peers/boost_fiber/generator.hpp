// The rows of generators. Values in turn: Boost.Coroutine2. Values there and back: a boost::context::fiber and two
// variables, since Coroutine2's coroutines hand values one way.
#pragma once

#include <cstdint>
#include <utility>

#include <boost/context/fiber.hpp>
#include <boost/coroutine2/all.hpp>

#include "../../workloads/counts.hpp"
#include "../../workloads/measure.hpp"

namespace peer {

inline bench::seconds generate() {
  boost::coroutines2::coroutine<std::uint64_t>::pull_type values([](auto& sink) {
    for (std::uint64_t v = 0;;) sink(v = bench::successor(v));
  });
  const bench::stopwatch time;
  std::uint64_t last = 0;
  int count = 0;
  for (std::uint64_t v : values) {
    last = v;
    if (++count == bench::generated_values) break;
  }
  const bench::seconds took = time.elapsed();
  bench::check(last == bench::last_generated_value(), "generator");
  return took;
}

inline bench::seconds send_and_receive() {
  std::uint64_t in = 0;
  std::uint64_t out = 0;
  boost::context::fiber body([&](boost::context::fiber&& consumer) {
    for (;;) {
      out = bench::successor(in);
      consumer = std::move(consumer).resume();
    }
    return std::move(consumer);
  });
  const bench::stopwatch time;
  for (int i = 0; i < bench::generated_values; ++i) {
    in = out;
    body = std::move(body).resume();
  }
  const bench::seconds took = time.elapsed();
  bench::check(out == bench::last_generated_value(), "coroutine");
  return took;
}

}  // namespace peer
