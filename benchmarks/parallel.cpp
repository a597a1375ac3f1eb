// What do the parallel forms cost? Of 10,000,000 cheap bodies; and a loop of ten of them, which is not worth a helper.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include <benchmark/benchmark.h>
#include <coir/parallel.hpp>

#include "support.hpp"
#include "workloads/parallel.hpp"
#include "workloads/sorting.hpp"

namespace {

void parallel_for(benchmark::State& state) {
  bench::measure(state, bench::parallel_bodies, [] {
    return bench::fill_in_parallel(
        [](std::size_t count, const auto& body) { coir::parallel_for(std::size_t{0}, count, body); });
  });
}
BENCHMARK(parallel_for)->Apply(bench::at_processors);

void parallel_for_of_ten(benchmark::State& state) {
  constexpr int loops = 10'000;
  bench::measure(state, loops, [] {
    int table[10] = {};
    const bench::stopwatch time;
    for (int n = 0; n < loops; ++n)
      coir::parallel_for(std::size_t{0}, std::size(table), [&](std::size_t i) { table[i] = n; });
    const bench::seconds took = time.elapsed();
    bench::check(table[9] == loops - 1, "parallel_for_of_ten");
    return took;
  });
}
BENCHMARK(parallel_for_of_ten)->Apply(bench::at_processors);

void parallel_reduce(benchmark::State& state) {
  bench::measure(state, bench::parallel_bodies, [] {
    return bench::add_in_parallel([](std::size_t count, auto value) {
      return coir::parallel_reduce(std::size_t{0}, count, std::uint64_t{0}, value, std::plus<>());
    });
  });
}
BENCHMARK(parallel_reduce)->Apply(bench::at_processors);

void parallel_sort(benchmark::State& state) {
  bench::measure(state, bench::sorted_numbers, [] {
    return bench::sort_in_place([](auto first, auto last) { coir::parallel_sort(std::span(first, last)); });
  });
}
BENCHMARK(parallel_sort)->Apply(bench::at_processors);

}  // namespace

BENCHMARK_MAIN();
