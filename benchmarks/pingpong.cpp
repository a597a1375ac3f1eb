// What does a round trip over two unbuffered channels cost?
#include <benchmark/benchmark.h>

#include "support.hpp"
#include "workloads/pingpong.hpp"

namespace {

void pingpong(benchmark::State& state) { bench::measure(state, bench::round_trips, bench::ping_pong); }
BENCHMARK(pingpong)->Apply(bench::at_processors);

}  // namespace

BENCHMARK_MAIN();
