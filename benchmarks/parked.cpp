// What does a parked fiber cost, and a coroutine that waits: to get there, in memory, and to wake? A million of them,
// cold, once for each number of processors; for the second the allocator and the page cache are warm, so bench_rows (a
// process each) is the measure.
#include <benchmark/benchmark.h>

#include "support.hpp"
#include "workloads/parked.hpp"

namespace {

template <bench::parked_result (*Workload)(int)>
void run(benchmark::State& state) {
  coir::run(bench::with_processors(state.range(0)), [&] {
    for (auto _ : state) {
      const bench::parked_result r = Workload(bench::parked_fibers);
      state.SetIterationTime((r.create + r.wake).count());
      state.counters["create"] = r.create.count() / bench::parked_fibers;
      state.counters["wake"] = r.wake.count() / bench::parked_fibers;
      state.counters["bytes"] = r.resident_bytes;
    }
  });
}
BENCHMARK(run<bench::parked>)->Name("parked")->Apply(bench::at_processors)->Iterations(1);
BENCHMARK(run<bench::parked_async>)->Name("parked_async")->Apply(bench::at_processors)->Iterations(1);

}  // namespace

BENCHMARK_MAIN();
