// What does a permit cost, acquired and released: uncontended, and with eight fibers on three permits?
#include <benchmark/benchmark.h>

#include "support.hpp"
#include "workloads/fibers.hpp"
#include "workloads/semaphore.hpp"

namespace {

void semaphore_uncontended(benchmark::State& state) {
  bench::measure(state, bench::lockings, [] { return bench::acquire_uncontended<bench::coir_fibers>(); });
}
BENCHMARK(semaphore_uncontended)->Apply(bench::at_processors);

void semaphore_8_fibers(benchmark::State& state) {
  bench::measure(state, bench::contended_lockings, [] { return bench::acquire_contended<bench::coir_fibers>(); });
}
BENCHMARK(semaphore_8_fibers)->Apply(bench::at_processors);

}  // namespace

BENCHMARK_MAIN();
