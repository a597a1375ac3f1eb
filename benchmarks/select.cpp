// What does a select cost, over two and over eight channels, unbuffered and buffered?
#include <cstddef>

#include <benchmark/benchmark.h>

#include "support.hpp"
#include "workloads/select.hpp"

namespace {

template <std::size_t Channels, std::size_t Capacity>
void select_of(benchmark::State& state) {
  bench::measure(state, bench::selected_values, [] { return bench::select_of<Channels>(Capacity); });
}
BENCHMARK_TEMPLATE(select_of, 2, 0)->Apply(bench::at_processors);
BENCHMARK_TEMPLATE(select_of, 2, 128)->Apply(bench::at_processors);
BENCHMARK_TEMPLATE(select_of, 8, 0)->Apply(bench::at_processors);
BENCHMARK_TEMPLATE(select_of, 8, 128)->Apply(bench::at_processors);

}  // namespace

BENCHMARK_MAIN();
