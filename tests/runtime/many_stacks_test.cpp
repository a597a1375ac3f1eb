// Many fibers alive at once: what they cost, that each is guarded, and that the memory goes back when they have ended.
#include <atomic>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using coir_test::until_blocked;
using runtime_test::gate;

constexpr bool plain = !coir_test::address_sanitizer && !coir_test::thread_sanitizer;
constexpr int many = plain ? 100'000 : 3'000;

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
  park(rt, many, [&] {
    EXPECT_LT((resident_bytes() - memory) / many, 5'000U) << "bytes a fiber: a page, its record and its task";
    EXPECT_LT(mappings() - maps, static_cast<std::size_t>(many) / 10);
  });
}

TEST_P(ManyStacks, TheirMemoryGoesBackWhenTheyHaveEnded) {
  if (!plain) GTEST_SKIP() << "the sanitizers keep what was freed";
  coir::runtime rt{opts()};
  park(rt, 10, [] {});
  const std::size_t before = resident_bytes();
  std::size_t peak = 0;
  for (int round = 0; round < 2; ++round) {  // the second on addresses that were given back
    park(rt, many / 4, [&] { peak = resident_bytes() - before; });
    EXPECT_GT(peak, static_cast<std::size_t>(many) / 4 * 4096);
    coir_test::until([&] { return resident_bytes() < before + peak / 3; });
  }
}

TEST_P(ManyStacks, StacksThatWereGivenBackServeAgainWhileOthersRun) {
  coir::runtime rt{opts()};
  std::atomic<bool> stop{false};
  coir::task<void> busy = rt.spawn([&] {
    while (!stop) coir::spawn([] { coir::yield(); }).get();
  });
  for (int round = 0; round < 3; ++round) park(rt, many / 10, [] {});
  stop = true;
  busy.get();
}

INSTANTIATE_TEST_SUITE_P(Processors, ManyStacks, coir_test::processors, coir_test::processors_name);

}  // namespace
