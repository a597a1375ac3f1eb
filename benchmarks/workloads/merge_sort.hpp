// Concurrent merge sort: a fiber for each half of each piece, a channel for each result. Go has the same program.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>

#include "counts.hpp"
#include "measure.hpp"
#include "sorting.hpp"

namespace bench {

/// Sorts a piece of no more than `least` numbers by itself.
inline numbers merge_sort(std::span<const std::int64_t> piece, std::size_t least) {
  if (piece.size() <= least) {
    numbers sorted(piece.begin(), piece.end());
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }
  auto left = coir::make_chan<numbers>();
  auto right = coir::make_chan<numbers>();
  const std::size_t middle = piece.size() / 2;
  coir::go([left, part = piece.first(middle), least] { left.send(merge_sort(part, least)); });
  coir::go([right, part = piece.subspan(middle), least] { right.send(merge_sort(part, least)); });
  const numbers low = *left.recv();
  const numbers high = *right.recv();
  numbers merged;
  merged.reserve(piece.size());
  std::merge(low.begin(), low.end(), high.begin(), high.end(), std::back_inserter(merged));
  return merged;
}

inline seconds merge_sort_of_pieces(std::size_t least) {
  const numbers input = unsorted();
  const stopwatch time;
  const numbers sorted = merge_sort(input, least);
  const seconds took = time.elapsed();
  check_sorted(sorted);
  return took;
}

}  // namespace bench
