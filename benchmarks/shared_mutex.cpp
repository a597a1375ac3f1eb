// What does a shared_mutex cost: read by one fiber, and by eight of which each writes now and then?
#include <benchmark/benchmark.h>

#include "support.hpp"
#include "workloads/fibers.hpp"
#include "workloads/shared_mutex.hpp"

namespace {

void shared_mutex_uncontended_read(benchmark::State& state) {
  bench::measure(state, bench::lockings, bench::read_uncontended<bench::coir_fibers>);
}
BENCHMARK(shared_mutex_uncontended_read)->Apply(bench::at_processors);

void shared_mutex_8_fibers(benchmark::State& state) {
  bench::measure(state, bench::contended_lockings, bench::read_and_write<bench::coir_fibers>);
}
BENCHMARK(shared_mutex_8_fibers)->Apply(bench::at_processors);

}  // namespace

BENCHMARK_MAIN();
