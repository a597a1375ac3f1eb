// What does a yield cost, between two fibers and among a thousand?
#include <benchmark/benchmark.h>

#include "support.hpp"
#include "workloads/yield.hpp"

namespace {

void yield_2(benchmark::State& state) {
  bench::measure(state, bench::yields, [] { return bench::yield_in_turn(2); });
}
BENCHMARK(yield_2)->Apply(bench::at_processors);

void yield_1000(benchmark::State& state) {
  bench::measure(state, bench::yields, [] { return bench::yield_in_turn(1000); });
}
BENCHMARK(yield_1000)->Apply(bench::at_processors);

}  // namespace

BENCHMARK_MAIN();
