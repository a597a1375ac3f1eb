// fib(27) with a fiber for each call, no cut-off: both recursive calls are spawned and joined.
#pragma once

#include <coir/runtime.hpp>

#include "measure.hpp"

namespace bench {

inline int fib(int n) {
  if (n < 2) return n;
  auto a = coir::spawn([n] { return fib(n - 1); });
  auto b = coir::spawn([n] { return fib(n - 2); });
  return a.get() + b.get();
}

inline seconds fib27() {
  const stopwatch time;
  const int result = fib(27);
  const seconds took = time.elapsed();
  check(result == 196'418, "fib27");
  return took;
}

}  // namespace bench
