// The rows of coir's comparison, in Boost.Fiber. The same work and output as benchmarks/rows.cpp:
//
//   boost_fiber_rows ROW PROCESSORS [spin|sleep]     a line a value: "row processors value unit [# note]"
//   boost_fiber_rows --list                          the rows: it has no select
//
// Where a row would take long its count is smaller and its result scaled; the note says so. At more than one processor
// each row runs with what is faster for it, idle threads that spin or that sleep. (Those that sleep are hardly ever
// woken to steal, so these rows in effect run on one thread, which suits a pair that talks.)
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "communication.hpp"
#include "many_fibers.hpp"

namespace {

using namespace peer;

struct value {
  const char* name;
  double number;
  const char* unit;
};

struct row {
  const char* name;
  bool warm_up;
  when_idle idle;  // at more than one thread
  const char* note;
  std::function<std::vector<value>()> run;
};

row per_operation(const char* name, int operations, when_idle idle, std::function<seconds(int)> workload) {
  return {name, true, idle, "", [=] {
            return std::vector{value{name, workload(operations).count() / operations * 1e9, "ns"}};
          }};
}

row in_milliseconds(const char* name, when_idle idle, double scale, const char* note,
                    std::function<seconds()> workload) {
  return {name, true, idle, note, [=] { return std::vector{value{name, workload().count() * scale * 1e3, "ms"}}; }};
}

std::vector<row> all_rows() {
  using enum when_idle;
  return {
      {"spawn_join", true, spin, "of 100,000 fibers",
       [] {
         return std::vector{value{"spawn_join", spawn_join(100'000).count() / 100'000 * 1e9, "ns"}};
       }},
      {"parked", false, spin, "times scaled from 200,000 fibers",
       [] {
         const parked_result r = parked(200'000);
         return std::vector{value{"parked_create", r.create.count() * 5, "s"},
                            value{"parked_rss", r.resident_bytes, "bytes"},
                            value{"parked_wake", r.wake.count() * 5, "s"}};
       }},
      per_operation("yield2", 10'000'000, sleep, [](int n) { return yield_in_turn(2, n); }),
      per_operation("yield1000", 10'000'000, spin, [](int n) { return yield_in_turn(1000, n); }),
      per_operation("pingpong", 2'000'000, sleep, [](int n) { return ping_pong(n); }),
      per_operation("spsc128", 10'000'000, sleep, [](int n) { return stream_buffered(1, n); }),
      per_operation("spsc0", 4'000'000, sleep, [](int n) { return stream_unbuffered(1, n); }),
      per_operation("mpmc128", 10'000'000, sleep, [](int n) { return stream_buffered(4, n); }),
      per_operation("mutex1", 8'000'000, sleep, [](int n) { return lock_in_turn(1, n); }),
      per_operation("mutex8", 8'000'000, sleep, [](int n) { return lock_in_turn(8, n); }),
      in_milliseconds("skynet", spin, 10, "scaled from 100,000 leaves", [] { return skynet(100'000); }),
      in_milliseconds("sieve", spin, 1, "", [] { return sieve(2'000, 17'389); }),
      per_operation("ring", 2'000'000, sleep, [](int n) { return ring(1'000, n); }),
      // 2 fib(28) - 1 calls against 2 fib(22) - 1.
      in_milliseconds("fib27", spin, 635'621.0 / 35'421.0, "scaled from fib(21)", [] { return fib_timed(21, 10'946); }),
      {"sleepers", true, sleep, "",
       [] {
         const sleepers_result r = sleepers();
         return std::vector{value{"sleepers_wall", r.wall.count() * 1e3, "ms"},
                            value{"sleepers_cpu", r.cpu.count() * 1e3, "ms"}};
       }},
      {"idle", false, sleep, "",
       [] {
         const usage u = idle();
         return std::vector{value{"idle_cpu", u.cpu.count() * 1e3, "ms"},
                            value{"idle_switches", static_cast<double>(u.switches), "switches"}};
       }},
  };
}

int usage_error() {
  std::fputs("usage: boost_fiber_rows ROW PROCESSORS [spin|sleep] | --list\n", stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<row> rows = all_rows();
  if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
    for (const row& r : rows) std::puts(r.name);
    return 0;
  }
  if (argc != 3 && argc != 4) return usage_error();
  const int threads = std::atoi(argv[2]);
  if (threads < 1) return usage_error();
  for (const row& r : rows) {
    if (std::string_view(argv[1]) != r.name) continue;
    when_idle idle = r.idle;
    if (argc == 4) idle = std::strcmp(argv[3], "sleep") == 0 ? when_idle::sleep : when_idle::spin;
    const crew running(static_cast<unsigned>(threads), idle);
    if (r.warm_up) r.run();
    std::string note = threads == 1 ? "round_robin" : "work_stealing";
    if (threads > 1) note += idle == when_idle::spin ? ", idle threads spin" : ", idle threads sleep";
    if (*r.note != '\0') note += std::string(", ") + r.note;
    for (const value& v : r.run()) std::printf("%s %d %.6g %s # %s\n", v.name, threads, v.number, v.unit, note.c_str());
    return 0;
  }
  std::fprintf(stderr, "boost_fiber_rows: no such row: %s\n", argv[1]);
  return 2;
}
