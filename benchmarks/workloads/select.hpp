// One fiber selects over the channels of so many producers, one channel each.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>
#include <coir/select.hpp>

#include "counts.hpp"
#include "measure.hpp"

namespace bench {

template <std::size_t N>
seconds select_of(std::size_t capacity) {
  const stopwatch time;
  std::array<coir::chan<int>, N> channels;
  for (auto& ch : channels) {
    ch = coir::make_chan<int>(capacity);
    coir::go([ch] {
      for (int i = 0; i < selected_values / static_cast<int>(N); ++i) ch.send(1);
    });
  }
  int sum = 0;
  const auto take = [&sum](std::optional<int> v) { sum += *v; };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    for (int i = 0; i < selected_values; ++i) coir::select(coir::on_recv(channels[I], take)...);
  }(std::make_index_sequence<N>{});
  const seconds took = time.elapsed();
  check(sum == selected_values, "select");
  return took;
}

}  // namespace bench
