// What does a value cost that goes through a channel, buffered or not, one to one and four to four?
#include <benchmark/benchmark.h>

#include "support.hpp"
#include "workloads/stream.hpp"

namespace {

void spsc_128(benchmark::State& state) {
  bench::measure(state, bench::buffered_values, [] { return bench::stream(1, 128, bench::buffered_values); });
}
BENCHMARK(spsc_128)->Apply(bench::at_processors);

void spsc_0(benchmark::State& state) {
  bench::measure(state, bench::unbuffered_values, [] { return bench::stream(1, 0, bench::unbuffered_values); });
}
BENCHMARK(spsc_0)->Apply(bench::at_processors);

void mpmc_128(benchmark::State& state) {
  bench::measure(state, bench::buffered_values, [] { return bench::stream(4, 128, bench::buffered_values); });
}
BENCHMARK(mpmc_128)->Apply(bench::at_processors);

}  // namespace

BENCHMARK_MAIN();
