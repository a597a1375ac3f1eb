// coir's rows of the comparison with other runtimes; row_program.hpp says how it is called. The programs in peers/ do
// the same.
#include <functional>
#include <span>
#include <vector>

#include <coir/parallel.hpp>
#include <coir/runtime.hpp>

#include "row_program.hpp"
#include "workloads/echo.hpp"
#include "workloads/fib.hpp"
#include "workloads/fibers.hpp"
#include "workloads/generator.hpp"
#include "workloads/idle.hpp"
#include "workloads/merge_sort.hpp"
#include "workloads/mutex.hpp"
#include "workloads/parallel.hpp"
#include "workloads/parked.hpp"
#include "workloads/pingpong.hpp"
#include "workloads/ring.hpp"
#include "workloads/select.hpp"
#include "workloads/semaphore.hpp"
#include "workloads/shared_mutex.hpp"
#include "workloads/sieve.hpp"
#include "workloads/skynet.hpp"
#include "workloads/sleepers.hpp"
#include "workloads/spawn.hpp"
#include "workloads/stream.hpp"
#include "workloads/timer.hpp"
#include "workloads/yield.hpp"

namespace {

using namespace bench;

std::vector<row> all_rows() {
  using fibers = coir_fibers;
  const auto loop = [](std::size_t count, const auto& body) { coir::parallel_for(std::size_t{0}, count, body); };
  const auto sum = [](std::size_t count, auto value) {
    return coir::parallel_reduce(std::size_t{0}, count, std::uint64_t{0}, value, std::plus<>());
  };
  const auto sort = [](auto first, auto last) { coir::parallel_sort(std::span(first, last)); };
  return {
      cold_too(per_operation("spawn_join", spawned_fibers, spawn_join)),
      parked_row("parked", [] { return parked(); }),
      parked_row("parked_async", [] { return parked_async(); }),
      per_operation("yield2", yields, [] { return yield_in_turn(2); }),
      per_operation("yield1000", yields, [] { return yield_in_turn(1000); }),
      per_operation("pingpong", round_trips, ping_pong),
      per_operation("spsc128", buffered_values, [] { return stream(1, 128, buffered_values); }),
      per_operation("spsc0", unbuffered_values, [] { return stream(1, 0, unbuffered_values); }),
      per_operation("mpmc128", buffered_values, [] { return stream(4, 128, buffered_values); }),
      per_operation("select2_0", selected_values, [] { return select_of<2>(0); }),
      per_operation("select2_128", selected_values, [] { return select_of<2>(128); }),
      per_operation("select8_0", selected_values, [] { return select_of<8>(0); }),
      per_operation("select8_128", selected_values, [] { return select_of<8>(128); }),
      per_operation("mutex1", lockings, [] { return lock_in_turn<fibers>(1); }),
      per_operation("mutex8", lockings, [] { return lock_in_turn<fibers>(8); }),
      per_operation("semaphore1", lockings, [] { return acquire_uncontended<fibers>(); }),
      per_operation("semaphore8", contended_lockings, [] { return acquire_contended<fibers>(); }),
      per_operation("shared_mutex1", lockings, read_uncontended<fibers>),
      per_operation("shared_mutex8", contended_lockings, read_and_write<fibers>),
      per_operation("timer_stop", timers_in_turn, set_and_stop),
      per_operation("timer_reset", timer_resets, reset_timer),
      per_operation("timer100k", timers_at_once * timer_batches, set_and_stop_all),
      per_operation("generator", generated_values, generate),
      per_operation("coroutine", generated_values, send_and_receive),
      cold_too(in_milliseconds("skynet", skynet)),
      in_milliseconds("sieve", sieve),
      per_operation("ring", hops, ring),
      cold_too(in_milliseconds("fib27", fib27)),
      program_in_milliseconds("merge_sort", [] { return merge_sort_of_pieces(least_piece); }),
      program_in_milliseconds("merge_sort_pieces", [] { return merge_sort_of_pieces(sequential_piece); }),
      cold_too(in_milliseconds("parallel_for", [=] { return fill_in_parallel(loop); })),
      cold_too(in_milliseconds("parallel_reduce", [=] { return add_in_parallel(sum); })),
      cold_too(in_milliseconds("parallel_sort", [=] { return sort_in_place(sort); })),
      per_operation("echo", echo_clients * echoes_a_client, echo),
      cold_too(sleepers_row(sleepers)),
      idle_row([] { return idle(); }),
  };
}

}  // namespace

int main(int argc, char** argv) {
  return row_program(argc, argv, all_rows(), [](const row& r, unsigned processors) {
    coir::options options;
    options.processors = processors;
    return outcome{coir::run(options, [&] { return run_row(r); })};
  });
}
