// A loop over cheap bodies, and a reduction of cheap values, by a parallel algorithm that is given: coir's, or a
// peer's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "counts.hpp"
#include "measure.hpp"

namespace bench {

/// A nanosecond or two of work; no compiler foresees it, nor a sum of it.
constexpr std::uint64_t scrambled(std::uint64_t n) {
  n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9U;
  n = (n ^ (n >> 27)) * 0x94d049bb133111ebU;
  return n ^ (n >> 31);
}

/// `parallel_for(count, body)` calls body(i) for each i below count.
template <class ParallelFor>
seconds fill_in_parallel(ParallelFor parallel_for) {
  std::vector<std::uint32_t> all(parallel_bodies);
  const stopwatch time;
  parallel_for(all.size(), [&](std::size_t i) { all[i] = static_cast<std::uint32_t>(scrambled(i)); });
  const seconds took = time.elapsed();
  std::uint64_t sum = 0;
  for (const std::uint32_t n : all) sum += n;
  check(sum == sum_of_low_halves, "parallel_for");
  return took;
}

/// `parallel_sum(count, value)` adds value(i) of each i below count.
template <class ParallelSum>
seconds add_in_parallel(ParallelSum parallel_sum) {
  const stopwatch time;
  const std::uint64_t sum = parallel_sum(std::size_t{parallel_bodies}, [](std::size_t i) { return scrambled(i); });
  const seconds took = time.elapsed();
  check(sum == sum_of_scrambled, "parallel_reduce");
  return took;
}

}  // namespace bench
