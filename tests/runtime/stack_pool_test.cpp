// Stacks: apart from each other, usable from end to end, with a guard below that faults, however it was made to.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include <unistd.h>

#include <coir/detail/start_record.hpp>

#include "coir_test.hpp"
#include "fiber/fiber.hpp"
#include "stack/stack_pool.hpp"

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
    // The colour takes a page at most; the guard is not taken from the stack.
    EXPECT_GE(s.top - s.bottom + ::sysconf(_SC_PAGESIZE), static_cast<std::ptrdiff_t>(size));
    EXPECT_LE(s.top - s.bottom, static_cast<std::ptrdiff_t>(size));
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
  // Of the first slab, and of later ones.
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

TEST_P(StackPool, TheGuardBelowAStackIsSixtyFourKibibytes) {
  for (const std::size_t stack :
       {std::size_t{16} * 1024, std::size_t{64} * 1024, std::size_t{100} * 1024, std::size_t{256} * 1024}) {
    stack_pool pool(stack, GetParam());
    EXPECT_GE(pool.guard_size(), 64U * 1024);
    EXPECT_LE(pool.guard_size(), 64U * 1024 + static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
    static_cast<void>(pool.make());
    char* const bottom = pool.make().bottom;
    for (const int below : {4096, 32 * 1024, 64 * 1024}) EXPECT_DEATH(write_to(bottom - below), "");
  }
}

TEST_P(StackPool, AnOverflowOfAFibersStackEndsTheProcess) {
  if (GetParam() != stack_pool::guard::automatic) GTEST_SKIP() << "a runtime's guards are the automatic ones";
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

/// So many stacks with a control block each.
std::vector<fiber*> make_stacks(stack_pool& pool, std::size_t count) {
  coir::detail::scheduler& home = coir::detail::current_scheduler("test");
  std::vector<fiber*> all;
  for (std::size_t i = 0; i < count; ++i) {
    const stack_pool::stack s = pool.make();
    const auto at = reinterpret_cast<std::uintptr_t>(s.top - sizeof(fiber)) / alignof(fiber) * alignof(fiber);
    all.push_back(::new (reinterpret_cast<void*>(at)) fiber(home, s.number, s.bottom, s.top));
    pool.made(*all.back());
  }
  return all;
}

std::vector<fiber*> take(stack_pool& pool, std::size_t most) {
  std::vector<fiber*> taken(most);
  taken.resize(pool.take(taken.data(), most));
  return taken;
}

// In whatever order they became free; the first to be used is the last of those taken.
TEST_P(StackPool, FreeStacksAreTakenInTheOrderOfTheirNumbers) {
  coir::run([&] {
    stack_pool pool(size, GetParam());
    const std::vector<fiber*> all = make_stacks(pool, 5);
    pool.put(std::vector{all[4], all[1]}.data(), 2);
    pool.put(std::vector{all[2], all[0], all[3]}.data(), 3);
    EXPECT_EQ(pool.free_count(), 5U);
    EXPECT_EQ(take(pool, 2), (std::vector<fiber*>{all[1], all[0]}));
    pool.put(&all[0], 1);
    EXPECT_EQ(take(pool, 4), (std::vector<fiber*>{all[4], all[3], all[2], all[0]}));
    EXPECT_EQ(take(pool, 4), std::vector<fiber*>{});
    EXPECT_EQ(pool.free_count(), 0U);
  });
}

TEST_P(StackPool, TheFreeOnesStayFreeWhenThereAreMore) {
  coir::run([&] {
    stack_pool pool(size, GetParam());
    const std::vector<fiber*> first = make_stacks(pool, 16);
    pool.put(first.data(), 16);
    EXPECT_EQ(take(pool, 10).back(), first[0]);
    const std::vector<fiber*> second = make_stacks(pool, 5000);
    pool.put(second.data(), 5000);
    std::vector<fiber*> expected(first.begin() + 10, first.end());
    expected.insert(expected.end(), second.begin(), second.end());
    std::vector<fiber*> taken = take(pool, 10'000);
    std::reverse(taken.begin(), taken.end());
    EXPECT_EQ(taken, expected);
  });
}

// Those that the least needed: what is taken after that are the others.
TEST_P(StackPool, GivesBackTheFreeOnesWithTheGreatestNumbers) {
  coir::run([&] {
    stack_pool pool(size, GetParam());
    const std::vector<fiber*> all = make_stacks(pool, 100);
    pool.put(all.data() + 10, 90);
    EXPECT_EQ(pool.trim(20, 50), 50U);
    EXPECT_EQ(pool.trim(20, 50), 20U);
    EXPECT_EQ(pool.trim(20, 50), 0U);
    const auto left = pool.fibers();
    EXPECT_EQ(std::vector<fiber*>(left.begin(), left.end()), std::vector<fiber*>(all.begin(), all.begin() + 30));
    EXPECT_EQ(pool.count().made, 100U);
    EXPECT_EQ(pool.count().free, 90U);
    std::vector<fiber*> taken = take(pool, 100);
    std::reverse(taken.begin(), taken.end());
    EXPECT_EQ(taken, std::vector<fiber*>(all.begin() + 10, all.begin() + 30));
    // Then those that were given back, each with its number.
    std::vector<std::size_t> numbers;
    for (int i = 0; i < 70; ++i) numbers.push_back(pool.make().number);
    std::vector<std::size_t> expected(70);
    std::iota(expected.begin(), expected.end(), 30U);
    EXPECT_EQ(numbers, expected);
    EXPECT_EQ(pool.make().number, 100U);
  });
}

// What is to be given back: those that nobody has needed for a while.
TEST_P(StackPool, KnowsHowManyWereFreeAllTheTime) {
  coir::run([&] {
    stack_pool pool(size, GetParam());
    pool.put(make_stacks(pool, 100).data(), 100);
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
