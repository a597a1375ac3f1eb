// How a workload becomes a Google Benchmark: it runs in the first fiber of a runtime with as many processors as the
// benchmark's argument says, once unmeasured, and then as often as the library wants. Time is what the workload itself
// reports (its set-up and tear-down stay outside); CPU time is that of all threads. per_op is the figure to read.
#pragma once

#include <cstdint>

#include <benchmark/benchmark.h>
#include <coir/runtime.hpp>

#include "workloads/measure.hpp"

namespace bench {

inline coir::options with_processors(std::int64_t n) {
  coir::options o;
  o.processors = static_cast<unsigned>(n);
  return o;
}

/// `workload()` returns the seconds that so many operations took.
template <class Workload>
void measure(benchmark::State& state, double operations, Workload workload) {
  coir::run(with_processors(state.range(0)), [&] {
    workload();
    for (auto _ : state) state.SetIterationTime(workload().count());
  });
  using benchmark::Counter;
  state.counters["per_op"] = Counter(operations, Counter::kIsIterationInvariantRate | Counter::kInvert);
}

/// Every benchmark here: at one and at two processors.
inline void at_processors(benchmark::internal::Benchmark* b) {
  b->ArgName("P")->Arg(1)->Arg(2)->UseManualTime()->MeasureProcessCPUTime()->Unit(benchmark::kMillisecond);
}

}  // namespace bench
