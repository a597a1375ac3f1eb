// Stacks: apart from each other, usable from end to end, with a page below that faults, however it was made to.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include <coir/start_record.hpp>

#include "coir_test.hpp"
#include "fiber.hpp"
#include "stack_pool.hpp"

namespace {

using coir::detail::fiber;
using coir::detail::stack_pool;

std::string guard_name(const testing::TestParamInfo<stack_pool::guard>& info) {
  return info.param == stack_pool::guard::automatic ? "Automatic" : "ByMprotect";
}

class StackPool : public testing::TestWithParam<stack_pool::guard> {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  static constexpr std::size_t size = 64 * 1024;
};

void write_to(char* p) { *static_cast<volatile char*>(p) = 1; }

TEST_P(StackPool, EveryByteOfAStackCanBeUsed) {
  stack_pool pool(size, GetParam());
  for (int i = 0; i < 200; ++i) {
    const stack_pool::stack s = pool.make();
    ASSERT_LT(s.bottom, s.top);
    // The guard and the colour take a page each at most.
    EXPECT_GE(s.top - s.bottom + 2 * ::sysconf(_SC_PAGESIZE), static_cast<std::ptrdiff_t>(size));
    EXPECT_LE(s.top - s.bottom, static_cast<std::ptrdiff_t>(pool.stack_size()));
    write_to(s.bottom);
    write_to(s.top - 1);
    if (i < 4) std::memset(s.bottom, i, static_cast<std::size_t>(s.top - s.bottom));
  }
  EXPECT_EQ(pool.unguarded(), 0U);
}

TEST_P(StackPool, StacksDoNotOverlap) {
  stack_pool pool(size, GetParam());
  std::vector<stack_pool::stack> all;
  for (int i = 0; i < 200; ++i) {
    const stack_pool::stack s = pool.make();
    for (const stack_pool::stack& other : all) ASSERT_TRUE(s.top <= other.bottom || other.top <= s.bottom);
    all.push_back(s);
  }
}

TEST_P(StackPool, ANewStackIsZero) {
  stack_pool pool(size, GetParam());
  const stack_pool::stack s = pool.make();
  for (const char* p = s.bottom; p < s.top; p += 512) ASSERT_EQ(*p, 0);
}

TEST_P(StackPool, TheByteBelowAStackFaults) {
  // Of the first slab, of a later one, and of one where pages are populated in advance.
  for (const int skip : {0, 5, 100, 700}) {
    EXPECT_DEATH(
        {
          stack_pool pool(size, GetParam());
          for (int i = 0; i < skip; ++i) static_cast<void>(pool.make());
          write_to(pool.make().bottom - 1);
        },
        "");
  }
}

TEST_P(StackPool, TheWholePageBelowAStackFaults) {
  EXPECT_DEATH(
      {
        stack_pool pool(size, GetParam());
        static_cast<void>(pool.make());
        write_to(pool.make().bottom - ::sysconf(_SC_PAGESIZE));
      },
      "");
}

TEST_P(StackPool, AnOverflowOfAFibersStackEndsTheProcess) {
  if (GetParam() != stack_pool::guard::automatic) return;  // what a runtime takes
  struct recursion {
    static int deeper(int n) {
      volatile char frame[1024];
      frame[0] = static_cast<char>(n);
      return n <= 0 ? frame[0] : deeper(n - 1) + frame[0];
    }
  };
  coir::options o;
  o.processors = 1;
  EXPECT_DEATH(coir::run(o, [] { return recursion::deeper(1'000'000); }), "");
}

/// Control blocks that stand for free stacks of a pool.
struct free_stacks {
  free_stacks(stack_pool& pool, std::size_t count) {
    coir::detail::scheduler& home = coir::detail::current_scheduler("test");
    for (std::size_t i = 0; i < count; ++i) {
      static_cast<void>(pool.make());
      blocks.push_back(std::make_unique<fiber>(home, nullptr, nullptr));
      all.push_back(blocks.back().get());
    }
  }

  std::vector<std::unique_ptr<fiber>> blocks;
  std::vector<fiber*> all;
};

std::vector<fiber*> take(stack_pool& pool, std::size_t most) {
  std::vector<fiber*> taken(most);
  taken.resize(pool.take(taken.data(), most));
  return taken;
}

TEST_P(StackPool, FreeStacksComeBackTheWarmestFirst) {
  coir::run([&] {
    stack_pool pool(size, GetParam());
    free_stacks stacks(pool, 5);
    const auto& all = stacks.all;
    pool.put(all.data(), 2);
    pool.put(all.data() + 2, 3);
    EXPECT_EQ(pool.free_count(), 5U);
    EXPECT_EQ(take(pool, 4), (std::vector<fiber*>{all[1], all[2], all[3], all[4]}));  // the warmest last
    EXPECT_EQ(take(pool, 4), std::vector<fiber*>{all[0]});
    EXPECT_EQ(take(pool, 4), std::vector<fiber*>{});
  });
}

TEST_P(StackPool, TheFreeOnesKeepTheirOrderWhenThereAreMore) {
  coir::run([&] {
    stack_pool pool(size, GetParam());
    free_stacks first(pool, 16);
    pool.put(first.all.data(), 16);
    EXPECT_EQ(take(pool, 10).front(), first.all[6]);
    pool.put(first.all.data() + 6, 10);
    free_stacks second(pool, 100);
    pool.put(second.all.data(), 100);
    std::vector<fiber*> expected = first.all;
    expected.insert(expected.end(), second.all.begin(), second.all.end());
    EXPECT_EQ(take(pool, 1000), expected);
  });
}

// What is to be given back: those that nobody has needed for a while.
TEST_P(StackPool, KnowsHowManyWereFreeAllTheTime) {
  coir::run([&] {
    stack_pool pool(size, GetParam());
    free_stacks stacks(pool, 100);
    pool.put(stacks.all.data(), 100);
    EXPECT_EQ(pool.unused(), 0U) << "a moment ago they were in use";
    EXPECT_EQ(pool.unused(), 100U);
    const std::vector<fiber*> some = take(pool, 70);
    pool.put(some.data(), some.size());
    EXPECT_EQ(pool.unused(), 30U);
    EXPECT_EQ(pool.unused(), 100U);
  });
}

INSTANTIATE_TEST_SUITE_P(Guards, StackPool,
                         testing::Values(stack_pool::guard::automatic, stack_pool::guard::by_mprotect), guard_name);

// mprotect costs two mappings a stack: what it may not have is left unguarded, and counted.
TEST(StackPoolBudget, MprotectStaysWithinTheMapCount) {
  constexpr std::size_t stacks = 20'000;
  stack_pool pool(16 * 1024, stack_pool::guard::by_mprotect);
  for (std::size_t i = 0; i < stacks; ++i) static_cast<void>(pool.make());
  EXPECT_LT(pool.unguarded(), stacks);
  // And there is room left for others: as many mappings as one likes to count on.
  stack_pool other(16 * 1024, stack_pool::guard::by_mprotect);
  for (int i = 0; i < 100; ++i) write_to(other.make().bottom);
}

}  // namespace
