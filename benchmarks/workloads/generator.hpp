// Values out of a generator, and values there and back through a coroutine. Neither needs a runtime.
#pragma once

#include <cstdint>

#include <coir/coroutine.hpp>
#include <coir/generator.hpp>

#include "counts.hpp"
#include "measure.hpp"

namespace bench {

inline coir::generator<std::uint64_t> endless_values() {
  return coir::generator<std::uint64_t>([](auto& yield) {
    for (std::uint64_t v = 0;;) yield(v = successor(v));
  });
}

/// Its first value is the successor of 0, the others those of what it is sent.
inline coir::coroutine<std::uint64_t, std::uint64_t> successors() {
  return coir::coroutine<std::uint64_t, std::uint64_t>([](auto& self) {
    for (std::uint64_t v = 0;;) v = self.yield(successor(v));
  });
}

inline seconds generate() {
  coir::generator<std::uint64_t> values = endless_values();
  const stopwatch time;
  std::uint64_t last = 0;
  int count = 0;
  for (std::uint64_t v : values) {
    last = v;
    if (++count == generated_values) break;
  }
  const seconds took = time.elapsed();
  check(last == last_generated_value(), "generator");
  return took;
}

inline seconds send_and_receive() {
  coir::coroutine<std::uint64_t, std::uint64_t> next = successors();
  const stopwatch time;
  std::uint64_t v = *next.next();
  for (int i = 1; i < generated_values; ++i) v = *next.send(v);
  const seconds took = time.elapsed();
  check(v == last_generated_value(), "coroutine");
  return took;
}

}  // namespace bench
