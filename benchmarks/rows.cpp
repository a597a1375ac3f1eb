// One row of the comparison with other runtimes, once, for compare.py to run in turn with the same row elsewhere:
//
//   bench_rows ROW PROCESSORS     a line a value: "row processors value unit [# note]"
//   bench_rows --list             the rows
//
// A row with warm_up set is run once unmeasured first, so that stacks and heap are there; one without it is measured
// cold, from the start of the process. The programs in peers/ do the same.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include <coir/runtime.hpp>

#include "workloads/fib.hpp"
#include "workloads/idle.hpp"
#include "workloads/mutex.hpp"
#include "workloads/parked.hpp"
#include "workloads/parked_async.hpp"
#include "workloads/pingpong.hpp"
#include "workloads/ring.hpp"
#include "workloads/select.hpp"
#include "workloads/sieve.hpp"
#include "workloads/skynet.hpp"
#include "workloads/sleepers.hpp"
#include "workloads/spawn.hpp"
#include "workloads/stream.hpp"
#include "workloads/yield.hpp"

namespace {

using namespace bench;

struct value {
  const char* name;
  double number;
  const char* unit;
};

struct row {
  const char* name;
  bool warm_up;
  std::function<std::vector<value>()> run;
};

row per_operation(const char* name, double operations, std::function<seconds()> workload) {
  return {name, true, [=] { return std::vector{value{name, workload().count() / operations * 1e9, "ns"}}; }};
}

row in_milliseconds(const char* name, std::function<seconds()> workload) {
  return {name, true, [=] { return std::vector{value{name, workload().count() * 1e3, "ms"}}; }};
}

std::vector<value> parked_row() {
  const parked_result r = parked();
  return {{"parked_create", r.create.count(), "s"},
          {"parked_rss", r.resident_bytes, "bytes"},
          {"parked_wake", r.wake.count(), "s"}};
}

std::vector<value> parked_async_row() {
  const parked_result r = parked_async();
  return {{"parked_async_create", r.create.count(), "s"},
          {"parked_async_rss", r.resident_bytes, "bytes"},
          {"parked_async_wake", r.wake.count(), "s"}};
}

std::vector<value> sleepers_row() {
  const sleepers_result r = sleepers();
  return {{"sleepers_wall", r.wall.count() * 1e3, "ms"}, {"sleepers_cpu", r.cpu.count() * 1e3, "ms"}};
}

std::vector<value> idle_row() {
  const usage u = idle();
  return {{"idle_cpu", u.cpu.count() * 1e3, "ms"}, {"idle_switches", static_cast<double>(u.switches), "switches"}};
}

std::vector<row> all_rows() {
  return {
      per_operation("spawn_join", spawned_fibers, spawn_join),
      {"parked", false, parked_row},
      {"parked_async", false, parked_async_row},
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
      per_operation("mutex1", lockings, [] { return lock_in_turn(1); }),
      per_operation("mutex8", lockings, [] { return lock_in_turn(8); }),
      in_milliseconds("skynet", skynet),
      in_milliseconds("sieve", sieve),
      per_operation("ring", hops, ring),
      in_milliseconds("fib27", fib27),
      {"sleepers", true, sleepers_row},
      {"idle", false, idle_row},
  };
}

int usage_error() {
  std::fputs("usage: bench_rows ROW PROCESSORS | --list\n", stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<row> rows = all_rows();
  if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
    for (const row& r : rows) std::puts(r.name);
    return 0;
  }
  if (argc != 3) return usage_error();
  coir::options options;
  const char* const end = argv[2] + std::strlen(argv[2]);
  if (std::from_chars(argv[2], end, options.processors).ptr != end || options.processors == 0) return usage_error();
  for (const row& r : rows) {
    if (std::string_view(argv[1]) != r.name) continue;
    const std::vector<value> values = coir::run(options, [&] {
      if (r.warm_up) r.run();
      return r.run();
    });
    for (const value& v : values) std::printf("%s %u %.6g %s\n", v.name, options.processors, v.number, v.unit);
    return 0;
  }
  std::fprintf(stderr, "bench_rows: no such row: %s\n", argv[1]);
  return 2;
}
