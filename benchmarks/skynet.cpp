// How fast do a million fibers come and go as a tree? per_op is a leaf.
#include <benchmark/benchmark.h>

#include "support.hpp"
#include "workloads/skynet.hpp"

namespace {

void skynet(benchmark::State& state) {
  bench::measure(state, static_cast<double>(bench::skynet_leaves), bench::skynet);
}
BENCHMARK(skynet)->Apply(bench::at_processors);

}  // namespace

BENCHMARK_MAIN();
