// Many fibers alive at once: what they cost, that each is guarded, and that the memory goes back when they have ended.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <coir/metrics.hpp>

#include "counted.hpp"
#include "fiber/fiber.hpp"
#include "gate.hpp"
#include "sched/worker.hpp"

namespace {

using coir_test::until_blocked;
using runtime_test::gate;

constexpr bool plain = !coir_test::address_sanitizer && !coir_test::thread_sanitizer;
constexpr int many_stacks = plain ? 100'000 : 3'000;

class ManyStacks : public coir_test::with_processors {};

std::size_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::size_t size = 0, resident = 0;
  in >> size >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t mappings() {
  std::ifstream in("/proc/self/maps");
  std::size_t n = 0;
  for (std::string line; std::getline(in, line);) ++n;
  return n;
}

/// Parks so many fibers, calls `then`, and lets them go.
template <class Then>
void park(coir::runtime& rt, int count, Then&& then) {
  gate door;
  std::vector<coir::task<void>> tasks;
  tasks.reserve(static_cast<std::size_t>(count));
  rt.run([&] {
    for (int i = 0; i < count; ++i) tasks.push_back(coir::spawn([&door] { door.pass(); }));
    until_blocked(tasks);
  });
  then();
  rt.run([&] { door.open(); });
  for (coir::task<void>& t : tasks) t.get();
}

TEST_P(ManyStacks, AParkedFiberCostsAPageAndNoMapping) {
  if (!plain) GTEST_SKIP() << "the sanitizers' own memory counts";
  coir::runtime rt{opts()};
  const std::size_t memory = resident_bytes();
  const std::size_t maps = mappings();
  park(rt, many_stacks, [&] {
    EXPECT_LT((resident_bytes() - memory) / many_stacks, 5'000U) << "bytes a fiber: a page, its record and its task";
    EXPECT_LT(mappings() - maps, static_cast<std::size_t>(many_stacks) / 10);
  });
}

std::size_t available_bytes() {
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("MemAvailable:", 0) == 0) return std::stoull(line.substr(13)) * 1024;
  return 0;
}

bool kernel_guards_without_mappings() {
  constexpr int guard_install = 102;
  const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool yes = ::madvise(page, bytes, guard_install) == 0;
  ::munmap(page, bytes);
  return yes;
}

/// As the kernel says, without a fault.
bool is_readable(const char* byte, const int (&pipe)[2]) {
  char read = 0;
  if (::write(pipe[1], byte, 1) == 1) return ::read(pipe[0], &read, 1) == 1;
  EXPECT_EQ(errno, EFAULT);
  return false;
}

TEST_P(ManyStacks, AMillionParkedFibersAreGuardedInUnderFiveGibibytesThatGoBack) {
  constexpr std::size_t million = 1'000'000;
  constexpr std::size_t gibibyte = std::size_t{1} << 30;
  if (!plain || GetParam() != 1) GTEST_SKIP() << "once, in a plain build";
  if (available_bytes() < 6 * gibibyte) GTEST_SKIP() << "the machine has no 6 GiB of memory to spare";
  coir::runtime rt{opts()};
  park(rt, 10, [] {});
  const std::size_t memory = resident_bytes();
  const std::size_t maps = mappings();
  std::size_t peak = 0;
  {
    gate door;
    std::vector<const char*> bottoms(million);
    rt.run([&] {
      for (std::size_t i = 0; i < million; ++i) {
        coir::go([&door, &bottoms, i] {
          bottoms[i] = coir::detail::current_fiber()->bottom;
          door.pass();
        });
      }
      coir_test::until([&] { return coir::metrics().parked >= million; });
    });
    peak = resident_bytes() - memory;
    EXPECT_LT(peak, 5 * gibibyte);
    EXPECT_LT(mappings() - maps, 30'000U) << "vm.max_map_count is 65,530 by default";
    if (kernel_guards_without_mappings()) {
      int ends[2];
      ASSERT_EQ(::pipe(ends), 0);
      std::size_t guarded = 0;
      for (const char* bottom : bottoms) guarded += is_readable(bottom - 1, ends) ? 0U : 1U;
      for (std::size_t i = 0; i < million; i += 1000) EXPECT_TRUE(is_readable(bottoms[i], ends));
      ::close(ends[0]);
      ::close(ends[1]);
      EXPECT_EQ(guarded, million);
    }
    rt.run([&] { door.open(); });
    rt.wait();
  }
  coir_test::until([&] { return resident_bytes() < memory + peak / 20; });
}

TEST_P(ManyStacks, TheirMemoryGoesBackWhenTheyHaveEnded) {
  if (!plain) GTEST_SKIP() << "the sanitizers keep what was freed";
  coir::runtime rt{opts()};
  constexpr int earlier = 10;
  park(rt, earlier, [] {});
  const std::size_t before = resident_bytes();
  std::size_t peak = 0;
  for (int round = 0; round < 2; ++round) {  // the second on addresses that were given back
    // The stacks of the earlier ones are in use again.
    park(rt, many_stacks / 4 + earlier, [&] { peak = resident_bytes() - before; });
    EXPECT_GT(peak, static_cast<std::size_t>(many_stacks) / 4 * 4000);
    coir_test::until([&] { return resident_bytes() < before + peak / 3; });
  }
}

// Bursts with pauses in which all is idle: memory that is needed again a moment later is not given back.
TEST_P(ManyStacks, BurstsKeepTheirStacks) {
  if (!plain) GTEST_SKIP() << "the sanitizers have memory of their own";
  constexpr std::size_t burst = 5000;
  constexpr int bursts = 100;
  coir::runtime rt{opts()};
  const auto faults = [] {
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    return static_cast<std::size_t>(used.ru_minflt);
  };
  park(rt, burst, [] {});
  const std::size_t before = faults();
  for (int i = 0; i < bursts; ++i) {
    park(rt, burst, [] {});
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_LT(faults() - before, burst * bursts / 20);
}

TEST_P(ManyStacks, StacksThatWereGivenBackServeAgainWhileOthersRun) {
  coir::runtime rt{opts()};
  std::atomic<bool> stop{false};
  coir::task<void> busy = rt.spawn([&] {
    while (!stop) coir::spawn([] { coir::yield(); }).get();
  });
  for (int round = 0; round < 3; ++round) park(rt, many_stacks / 10, [] {});
  stop = true;
  busy.get();
}

INSTANTIATE_TEST_SUITE_P(Processors, ManyStacks, coir_test::processors, coir_test::processors_name);

}  // namespace
