// What does handing a token to the next of a thousand fibers cost?
#include <benchmark/benchmark.h>

#include "support.hpp"
#include "workloads/ring.hpp"

namespace {

void ring(benchmark::State& state) { bench::measure(state, bench::hops, bench::ring); }
BENCHMARK(ring)->Apply(bench::at_processors);

}  // namespace

BENCHMARK_MAIN();
