// The memory of the stacks of generators: it goes back when many have ended, with or without a runtime; of few it is
// kept for the next ones.
#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

#include <coir/generator.hpp>

#include "coir_test.hpp"
#include "stack/coroutine_stacks.hpp"

namespace {

using coir::generator;

constexpr bool plain = !coir_test::address_sanitizer && !coir_test::thread_sanitizer;
constexpr std::size_t many_generators = plain ? 50'000 : 2'000;

std::size_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::size_t size = 0, resident = 0;
  in >> size >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t page_faults() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<std::size_t>(used.ru_minflt);
}

/// So many, each suspended in its body.
std::vector<generator<std::size_t>> suspended(std::size_t count) {
  std::vector<generator<std::size_t>> all;
  all.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    all.emplace_back([i](auto& yield) {
      for (std::size_t n = i;; ++n) yield(n);
    });
    all.back().begin();
  }
  return all;
}

void expect_memory_to_go_back() {
  suspended(10);
  const std::size_t before = resident_bytes();
  for (int round = 0; round < 3; ++round) {  // the later ones on addresses that were given back
    std::size_t peak = 0;
    {
      std::vector<generator<std::size_t>> all = suspended(many_generators);
      peak = resident_bytes() - before;
      if (plain) {
        EXPECT_GT(peak, many_generators * 4000);
      }
      for (std::size_t i = 0; i < many_generators; i += 100) {
        EXPECT_EQ(*all[i].begin(), i + 1);
      }
    }
    if (!plain) continue;  // the sanitizers' own memory counts
    EXPECT_LT(resident_bytes(), before + peak / 5);
  }
}

TEST(GeneratorMemory, GoesBackWhenManyHaveEndedWhereThereIsNoRuntime) { expect_memory_to_go_back(); }

TEST(GeneratorMemory, GoesBackWhenManyHaveEndedInAFiber) { coir::run(expect_memory_to_go_back); }

TEST(GeneratorMemory, GoesBackInWhateverOrderAndOnWhateverThreadTheyEnd) {
  const std::size_t before = resident_bytes();
  std::vector<generator<std::size_t>> all = suspended(many_generators);
  const std::size_t peak = resident_bytes() - before;
  for (std::size_t i = 1; i < many_generators; ++i) std::swap(all[i], all[i * 7919 % i]);
  const auto half = all.begin() + static_cast<std::ptrdiff_t>(many_generators / 2);
  std::vector<generator<std::size_t>> second(std::make_move_iterator(half), std::make_move_iterator(all.end()));
  std::thread other([&] { second.clear(); });
  all.clear();
  other.join();
  if (plain) {
    EXPECT_LT(resident_bytes(), before + peak / 5);
  }
}

// As many as a class keeps: what ended a moment ago serves the next.
TEST(GeneratorMemory, IsKeptForTheNextOnes) {
  if (!plain) GTEST_SKIP() << "the sanitizers have memory of their own";
  const std::size_t kept = coir::detail::coroutine_stacks_kept(coir::coroutine_options().stack_size);
  constexpr std::size_t rounds = 100;
  suspended(kept);
  const std::size_t before = page_faults();
  for (std::size_t i = 0; i < rounds; ++i) suspended(kept);
  EXPECT_LT(page_faults() - before, kept * rounds / 20);
}

// If each was used to its end, too.
TEST(GeneratorMemory, OfLargeStacksFewerAreKept) {
  constexpr std::size_t size = 4 * 1024 * 1024;
  constexpr std::size_t used = size / 2;
  constexpr std::size_t count = plain ? 512 : 8;
  const auto deep = [](auto& yield) {
    volatile char frame[used];
    for (std::size_t i = 0; i < used; i += 4096) frame[i] = 1;
    yield(char{frame[0]});
  };
  const std::size_t before = resident_bytes();
  {
    std::vector<generator<char>> all;
    for (std::size_t i = 0; i < count; ++i) {
      all.emplace_back(coir::coroutine_options{.stack_size = size}, deep);
      all.back().begin();
    }
  }
  EXPECT_LE(coir::detail::coroutine_stacks_kept(size) * size, 256U << 20);
  if (plain) {
    EXPECT_LT(resident_bytes(), before + (300U << 20));
  }
}

}  // namespace
