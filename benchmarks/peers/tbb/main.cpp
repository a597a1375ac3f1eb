// The rows of parallel algorithms with what oneTBB has. The same work and output as benchmarks/rows.cpp
// (row_program.hpp says how it is called).
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_reduce.h>
#include <tbb/parallel_sort.h>

#include "../../row_program.hpp"
#include "../../workloads/parallel.hpp"
#include "../../workloads/sorting.hpp"

namespace {

struct tbb_row : bench::row {
  const char* note = "";
};

std::vector<tbb_row> all_rows() {
  using namespace bench;
  const auto parallel_sort = [](auto first, auto last) { tbb::parallel_sort(first, last); };
  const auto parallel_for = [](std::size_t count, const auto& body) { tbb::parallel_for(std::size_t{0}, count, body); };
  const auto parallel_sum = [](std::size_t count, auto value) {
    using range = tbb::blocked_range<std::size_t>;
    return tbb::parallel_reduce(
        range(0, count), std::uint64_t{0},
        [=](const range& part, std::uint64_t sum) {
          for (std::size_t i = part.begin(); i != part.end(); ++i) sum += value(i);
          return sum;
        },
        std::plus<>());
  };
  return {
      {program_in_milliseconds("merge_sort_pieces", [=] { return sort_in_place(parallel_sort); }),
       "tbb::parallel_sort"},
      {cold_too(in_milliseconds("parallel_for", [=] { return fill_in_parallel(parallel_for); }))},
      {cold_too(in_milliseconds("parallel_reduce", [=] { return add_in_parallel(parallel_sum); }))},
      {cold_too(in_milliseconds("parallel_sort", [=] { return sort_in_place(parallel_sort); }))},
  };
}

}  // namespace

int main(int argc, char** argv) {
  return bench::row_program(argc, argv, all_rows(), [](const tbb_row& r, unsigned threads) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    return bench::outcome{run_row(r), r.note};
  });
}
