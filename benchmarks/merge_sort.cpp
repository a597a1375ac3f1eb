// What does a program cost that starts a fiber wherever two things can go on at once, and one that first makes the
// pieces large enough? Cold, as programs are.
#include <benchmark/benchmark.h>

#include "support.hpp"
#include "workloads/merge_sort.hpp"

namespace {

void merge_sort(benchmark::State& state, std::size_t least) {
  coir::run(bench::with_processors(state.range(0)), [&] {
    for (auto _ : state) state.SetIterationTime(bench::merge_sort_of_pieces(least).count());
  });
}
BENCHMARK_CAPTURE(merge_sort, each_piece, bench::least_piece)->Apply(bench::at_processors)->Iterations(1);
BENCHMARK_CAPTURE(merge_sort, pieces, bench::sequential_piece)->Apply(bench::at_processors)->Iterations(1);

}  // namespace

BENCHMARK_MAIN();
