// What does a runtime with nothing to do cost in five seconds: CPU time and context switches?
#include <benchmark/benchmark.h>

#include "support.hpp"
#include "workloads/idle.hpp"

namespace {

void idle(benchmark::State& state) {
  coir::run(bench::with_processors(state.range(0)), [&] {
    for (auto _ : state) {
      const bench::stopwatch time;
      const bench::usage used = bench::idle();
      state.SetIterationTime(time.elapsed().count());
      state.counters["cpu"] = used.cpu.count();
      state.counters["switches"] = static_cast<double>(used.switches);
    }
  });
}
BENCHMARK(idle)->Apply(bench::at_processors)->Iterations(1);

}  // namespace

BENCHMARK_MAIN();
