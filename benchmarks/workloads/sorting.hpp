// What is sorted by the rows of sorting, in coir and in the peers: numbers in no order, of 64 bits as Go's int.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "counts.hpp"
#include "measure.hpp"

namespace bench {

using numbers = std::vector<std::int64_t>;

inline numbers unsorted() {
  numbers all;
  all.reserve(sorted_numbers);
  std::uint64_t x = 1;
  for (std::size_t i = 0; i < sorted_numbers; ++i) {
    x = x * 6364136223846793005 + 1442695040888963407;
    all.push_back(static_cast<std::int64_t>(x >> 33));
  }
  return all;
}

inline void check_sorted(const numbers& sorted) {
  std::int64_t sum = 0;
  for (const std::int64_t n : sorted) sum += n;
  check(sorted.size() == sorted_numbers && sum == sum_of_numbers && std::is_sorted(sorted.begin(), sorted.end()),
        "sort");
}

/// `sort(first, last)`, of a library.
template <class Sort>
seconds sort_in_place(Sort sort) {
  numbers all = unsorted();
  const stopwatch time;
  sort(all.begin(), all.end());
  const seconds took = time.elapsed();
  check_sorted(all);
  return took;
}

}  // namespace bench
