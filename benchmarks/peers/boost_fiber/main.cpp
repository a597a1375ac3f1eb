// The rows of coir's comparison, in Boost.Fiber. The same work and output as benchmarks/rows.cpp (row_program.hpp says
// how it is called); it has no select, no shared mutex and no timers. A third argument, spin or sleep:
//
//   boost_fiber_rows ROW PROCESSORS [spin|sleep]
//
// Where a row would take long its count is smaller and its result scaled; the note says so. At more than one processor
// each row runs with what is faster for it, idle threads that spin or that sleep. (Those that sleep are hardly ever
// woken to steal, so these rows in effect run on one thread, which suits a pair that talks.)
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "../../row_program.hpp"
#include "../../workloads/counts.hpp"
#include "../../workloads/mutex.hpp"
#include "../../workloads/semaphore.hpp"
#include "communication.hpp"
#include "generator.hpp"
#include "locks.hpp"
#include "many_fibers.hpp"

namespace {

using namespace peer;
using bench::in_milliseconds;
using bench::per_operation;

struct fiber_row : bench::row {
  when_idle idle;  // at more than one thread
  const char* note = "";
};

parked_result parked_scaled() {
  constexpr int fewer = 5;
  const parked_result r = parked(bench::parked_fibers / fewer);
  return {r.create * fewer, r.resident_bytes, r.wake * fewer};
}

// 2 fib(28) - 1 calls against 2 fib(22) - 1.
seconds fib_scaled() { return fib_timed(21, 10'946) * (635'621.0 / 35'421.0); }

std::vector<fiber_row> all_rows() {
  using enum when_idle;
  using namespace bench;
  constexpr int fewer_fibers = spawned_fibers / 10;
  return {
      {cold_too(per_operation("spawn_join", fewer_fibers, [] { return peer::spawn_join(fewer_fibers); })), spin,
       "of 100,000 fibers"},
      {parked_row("parked", parked_scaled), spin, "times scaled from 200,000 fibers"},
      {per_operation("yield2", yields, [] { return yield_in_turn(2, yields); }), sleep},
      {per_operation("yield1000", yields, [] { return yield_in_turn(1000, yields); }), spin},
      {per_operation("pingpong", round_trips, [] { return ping_pong(round_trips); }), sleep},
      {per_operation("spsc128", buffered_values, [] { return stream_buffered(1, buffered_values); }), sleep},
      {per_operation("spsc0", unbuffered_values, [] { return stream_unbuffered(1, unbuffered_values); }), sleep},
      {per_operation("mpmc128", buffered_values, [] { return stream_buffered(4, buffered_values); }), sleep},
      {per_operation("mutex1", lockings, [] { return lock_in_turn<boost_fibers>(1); }), sleep},
      {per_operation("mutex8", lockings, [] { return lock_in_turn<boost_fibers>(8); }), sleep},
      {per_operation("semaphore1", lockings, [] { return acquire_uncontended<boost_fibers>(); }), sleep,
       "a buffered channel"},
      {per_operation("semaphore8", contended_lockings, [] { return acquire_contended<boost_fibers>(); }), sleep,
       "a buffered channel"},
      {per_operation("generator", generated_values, generate), sleep, "Boost.Coroutine2"},
      {per_operation("coroutine", generated_values, send_and_receive), sleep, "boost::context::fiber"},
      {cold_too(in_milliseconds("skynet", [] { return skynet(skynet_leaves / 10) * 10; })), spin,
       "scaled from 100,000 leaves"},
      {in_milliseconds("sieve", [] { return sieve(sieve_primes, last_prime); }), spin},
      {per_operation("ring", hops, [] { return ring(static_cast<int>(ring_fibers), hops); }), sleep},
      {cold_too(in_milliseconds("fib27", fib_scaled)), spin, "scaled from fib(21)"},
      {cold_too(sleepers_row(sleepers)), sleep},
      {idle_row(idle), sleep},
  };
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<when_idle> wanted;
  if (argc == 4) wanted = std::strcmp(argv[--argc], "sleep") == 0 ? when_idle::sleep : when_idle::spin;
  return bench::row_program(argc, argv, all_rows(), [wanted](const fiber_row& r, unsigned threads) {
    const when_idle idle = wanted.value_or(r.idle);
    const crew running(threads, idle);
    std::string note = threads == 1 ? "round_robin" : "work_stealing";
    if (threads > 1) note += idle == when_idle::spin ? ", idle threads spin" : ", idle threads sleep";
    if (*r.note != '\0') note += std::string(", ") + r.note;
    return bench::outcome{run_row(r), note};
  });
}
