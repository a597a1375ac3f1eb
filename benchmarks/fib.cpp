// What does recursive parallelism cost with a task for each call? per_op is a call.
#include <benchmark/benchmark.h>

#include "support.hpp"
#include "workloads/fib.hpp"

namespace {

constexpr int calls = 2 * 317'811 - 1;  // 2 fib(28) - 1

void fib27(benchmark::State& state) { bench::measure(state, calls, bench::fib27); }
BENCHMARK(fib27)->Apply(bench::at_processors);

}  // namespace

BENCHMARK_MAIN();
