// How late, and at what cost, do a hundred thousand sleepers wake? Ideal is 200 ms of wall time.
#include <benchmark/benchmark.h>

#include "support.hpp"
#include "workloads/sleepers.hpp"

namespace {

void sleepers(benchmark::State& state) {
  bench::measure(state, bench::sleeping_fibers, [] { return bench::sleepers().wall; });
}
BENCHMARK(sleepers)->Apply(bench::at_processors);

}  // namespace

BENCHMARK_MAIN();
