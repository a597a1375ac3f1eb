// What does a fiber cost that does nothing: started, run, joined?
#include <benchmark/benchmark.h>

#include "support.hpp"
#include "workloads/spawn.hpp"

namespace {

void spawn_join(benchmark::State& state) { bench::measure(state, bench::spawned_fibers, bench::spawn_join); }
BENCHMARK(spawn_join)->Apply(bench::at_processors);

}  // namespace

BENCHMARK_MAIN();
