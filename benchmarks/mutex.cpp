// What does locking and unlocking cost, uncontended and with eight fibers on one mutex?
#include <benchmark/benchmark.h>

#include "support.hpp"
#include "workloads/fibers.hpp"
#include "workloads/mutex.hpp"

namespace {

void mutex_uncontended(benchmark::State& state) {
  bench::measure(state, bench::lockings, [] { return bench::lock_in_turn<bench::coir_fibers>(1); });
}
BENCHMARK(mutex_uncontended)->Apply(bench::at_processors);

void mutex_8_fibers(benchmark::State& state) {
  bench::measure(state, bench::lockings, [] { return bench::lock_in_turn<bench::coir_fibers>(8); });
}
BENCHMARK(mutex_8_fibers)->Apply(bench::at_processors);

}  // namespace

BENCHMARK_MAIN();
