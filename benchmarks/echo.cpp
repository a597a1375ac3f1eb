// What does a round trip over loopback TCP cost, with its client and its server in one process?
#include <benchmark/benchmark.h>

#include "support.hpp"
#include "workloads/echo.hpp"

namespace {

void echo(benchmark::State& state) { bench::measure(state, bench::echo_clients * bench::echoes_a_client, bench::echo); }
BENCHMARK(echo)->Apply(bench::at_processors);

}  // namespace

BENCHMARK_MAIN();
