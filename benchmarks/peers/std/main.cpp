// The rows of the locks with what the standard library has: a std::thread for each fiber, on so many CPUs; std::mutex,
// std::counting_semaphore, std::shared_mutex. And std::sort, which takes one thread. The same work and output as
// benchmarks/rows.cpp (row_program.hpp says how it is called).
#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "../../row_program.hpp"
#include "../../workloads/counts.hpp"
#include "../../workloads/mutex.hpp"
#include "../../workloads/semaphore.hpp"
#include "../../workloads/shared_mutex.hpp"
#include "../../workloads/sorting.hpp"

namespace {

struct threads {
  using mutex = std::mutex;
  using semaphore = std::counting_semaphore<bench::permits>;
  using shared_mutex = std::shared_mutex;

  static void yield() { std::this_thread::yield(); }

  template <class F>
  static void side_by_side(int count, F f) {
    std::vector<std::thread> all;
    for (int i = 0; i < count; ++i) all.emplace_back(f);
    for (std::thread& t : all) t.join();
  }
};

/// Of those that the process may use, the first ones; all, if they are fewer.
void use_cpus(unsigned count) {
  cpu_set_t allowed;
  bench::check(sched_getaffinity(0, sizeof allowed, &allowed) == 0, "sched_getaffinity");
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    if (count == 0)
      CPU_CLR(cpu, &allowed);
    else
      --count;
  }
  bench::check(sched_setaffinity(0, sizeof allowed, &allowed) == 0, "sched_setaffinity");
}

// libstdc++ 12 makes a system call for each release of a semaphore.
constexpr int fewer_uncontended = bench::lockings / 20;
constexpr int fewer_contended = bench::contended_lockings / 20;

struct std_row : bench::row {
  const char* note = "a thread for each fiber";
};

std::vector<std_row> all_rows() {
  using namespace bench;
  return {
      {per_operation("mutex1", lockings, [] { return lock_in_turn<threads>(1); })},
      {per_operation("mutex8", lockings, [] { return lock_in_turn<threads>(8); })},
      {per_operation("semaphore1", fewer_uncontended, [] { return acquire_uncontended<threads>(fewer_uncontended); })},
      {per_operation("semaphore8", fewer_contended, [] { return acquire_contended<threads>(fewer_contended); })},
      {per_operation("shared_mutex1", lockings, read_uncontended<threads>)},
      {per_operation("shared_mutex8", contended_lockings, read_and_write<threads>)},
      {program_in_milliseconds("merge_sort_pieces",
                               [] { return sort_in_place([](auto first, auto last) { std::sort(first, last); }); }),
       "std::sort"},
  };
}

}  // namespace

int main(int argc, char** argv) {
  return bench::row_program(argc, argv, all_rows(), [](const std_row& r, unsigned processors) {
    use_cpus(processors);
    return bench::outcome{run_row(r), r.note};
  });
}
