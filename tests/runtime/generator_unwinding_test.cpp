// A generator or coroutine that is destroyed before its end: its body is unwound, exactly once, wherever it was left;
// what a body may do against it; and its stack, which comes back, and has a guard.
#include <coir/coroutine.hpp>
#include <coir/generator.hpp>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "counted.hpp"

namespace {

using coir::coroutine;
using coir::generator;
using runtime_test::counted;

class GeneratorUnwinding : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    ASSERT_EQ(counted::live(), 0);
  }
  void TearDown() override { EXPECT_EQ(counted::live(), 0) << "left behind, or destroyed twice"; }
};

void nest(int depth, generator<int>::yielder& yield) {
  const counted c(depth);
  if (depth == 0)
    yield(counted::live());
  else
    nest(depth - 1, yield);
}

TEST_F(GeneratorUnwinding, DestroysEveryFrameOfTheBodyOnce) {
  for (int depth : {0, 1, 50}) {
    generator<int> g([depth, c = counted(0)](auto& yield) { nest(depth, yield); });
    EXPECT_EQ(g.next(), depth + 2);
  }
}

TEST_F(GeneratorUnwinding, LeavesABodyThatHasNotBegunAlone) {
  int ran = 0;
  {
    generator<int> g([&ran, c = counted(1)](auto&) { ++ran; });
  }
  EXPECT_EQ(ran, 0);
}

TEST_F(GeneratorUnwinding, LeavesTheCatchBlocksThatTheBodyYieldsIn) {
  struct thrown {
    counted c = counted(0);
  };
  try {
    throw thrown{};
  } catch (const thrown&) {
    generator<int> g([](auto& yield) {
      try {
        throw thrown{};
      } catch (const thrown&) {
        try {
          throw thrown{};
        } catch (const thrown&) {
          nest(1, yield);
        }
      }
    });
    EXPECT_EQ(g.next(), 5);
    g = {};
    EXPECT_EQ(counted::live(), 1) << "the consumer's own is left";
    EXPECT_NE(std::current_exception(), nullptr);
  }
}

TEST_F(GeneratorUnwinding, HappensAtAssignmentToo) {
  generator<int> g([](auto& yield) { nest(3, yield); });
  g.next();
  EXPECT_EQ(counted::live(), 4);
  g = generator<int>([](auto& yield) { nest(1, yield); });
  EXPECT_EQ(counted::live(), 0);
  g.next();
  g = {};
  EXPECT_EQ(counted::live(), 0);
}

TEST_F(GeneratorUnwinding, HappensWhileTheConsumerIsUnwoundItself) {
  struct sees {
    int* uncaught;
    ~sees() { *uncaught = std::uncaught_exceptions(); }
  };
  int in_body = -1;
  try {
    generator<int> g([&](auto& yield) {
      const sees s{&in_body};
      nest(2, yield);
    });
    g.next();
    throw std::runtime_error("consumer");
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "consumer");
  }
  EXPECT_EQ(in_body, 1) << "its own unwinding, not the consumer's";
  EXPECT_EQ(std::uncaught_exceptions(), 0);
}

TEST_F(GeneratorUnwinding, GoesThroughABodyThatYieldsFromAnother) {
  generator<int> outer([](auto& yield) {
    const counted mine(1);
    generator<int> inner([&](auto& inner_yield) {
      const counted its(2);
      yield(1);  // to the outer one's consumer
      inner_yield(2);
    });
    for (int v : inner) yield(v);
  });
  EXPECT_EQ(outer.next(), 1);
  EXPECT_EQ(counted::live(), 2);
  outer = {};
  EXPECT_EQ(counted::live(), 0);
}

TEST_F(GeneratorUnwinding, DestroysAChainThatDelegates) {
  struct delegating {
    static coroutine<int> of(int depth) {
      return coroutine<int>([depth](auto& self) {
        const counted c(depth);
        if (depth > 0) self.yield_from(of(depth - 1));
        self.yield(depth);
      });
    }
  };
  coroutine<int> c = delegating::of(30);
  c.next();
  EXPECT_EQ(counted::live(), 31);
}

TEST_F(GeneratorUnwinding, ABodyThatSwallowsItMayReturn) {
  int swallowed = 0;
  {
    generator<int> g([&](auto& yield) {
      try {
        nest(2, yield);
      } catch (...) {
        ++swallowed;
      }
    });
    g.next();
  }
  EXPECT_EQ(swallowed, 1);
}

TEST_F(GeneratorUnwinding, ABodyThatSwallowsItGetsItAgainAtTheNextYield) {
  int swallowed = 0;
  bool behind = false;
  {
    generator<int> g([&](auto& yield) {
      for (int i = 0; i < 3; ++i) try {
          yield(i);
        } catch (...) {
          ++swallowed;
        }
      yield(4);
      behind = true;
    });
    g.next();
  }
  EXPECT_EQ(swallowed, 3);
  EXPECT_FALSE(behind);
}

TEST_F(GeneratorUnwinding, WhatTheBodyThrowsInsteadIsDropped) {
  generator<int> g([](auto& yield) {
    try {
      yield(1);
    } catch (...) {
      throw std::runtime_error("instead");
    }
  });
  g.next();
}

TEST_F(GeneratorUnwinding, ABodyThatSwallowsItForEverEndsTheProcessWithAReport) {
  EXPECT_DEATH(
      {
        generator<int> g([](auto& yield) {
          for (;;) try {
              yield(1);
            } catch (...) {
            }
        });
        g.next();
      },
      "coir: fatal: the body of a generator or coroutine that is being destroyed yields again and again");
}

TEST_F(GeneratorUnwinding, DestroyingItFromItsOwnBodyEndsTheProcessWithAReport) {
  EXPECT_DEATH(
      {
        std::optional<generator<int>> g;
        g.emplace([&](auto& yield) {
          g.reset();
          yield(1);
        });
        g->next();
      },
      "coir: fatal: a generator or coroutine was destroyed while its body runs");
}

TEST_F(GeneratorUnwinding, HappensOnWhateverThreadDestroysIt) {
  for (int i = 0; i < coir_test::scaled(200); ++i) {
    std::optional<generator<int>> g;
    std::thread([&] {
      g.emplace([](auto& yield) {
        nest(5, yield);
        nest(2, yield);
      });
      EXPECT_EQ(g->next(), 6);
    }).join();
    std::thread([&] { EXPECT_EQ(g->next(), 3); }).join();
    std::thread([&] { g.reset(); }).join();
    ASSERT_EQ(counted::live(), 0);
  }
}

// ---- stacks --------------------------------------------------------------------------------------------------------

[[gnu::noinline]] int deeper(int n) {
  volatile char frame[1024];
  frame[0] = static_cast<char>(n);
  return n <= 0 ? frame[0] : deeper(n - 1) + frame[0];
}

TEST_F(GeneratorUnwinding, AnOverflowOfTheBodysStackHitsItsGuard) {
  for (const std::size_t size : {std::size_t{16 * 1024}, std::size_t{256 * 1024}})
    EXPECT_DEATH(
        {
          generator<int> g(coir::coroutine_options{.stack_size = size}, [](auto& yield) { yield(deeper(1'000'000)); });
          g.next();
        },
        "");
}

TEST_F(GeneratorUnwinding, ALargeStackMayBeUsed) {
  generator<int> g(coir::coroutine_options{.stack_size = 64 << 20}, [](auto& yield) { yield(deeper(20'000)); });
  EXPECT_TRUE(g.next().has_value());
}

TEST_F(GeneratorUnwinding, StacksAreUsedAgain) {
  std::vector<const void*> seen;
  for (int i = 0; i < 1000; ++i) {
    generator<const void*> g([](auto& yield) {
      const int local = 0;
      yield(static_cast<const void*>(&local));
    });
    const void* where = *g.next();
    if (std::find(seen.begin(), seen.end(), where) == seen.end()) seen.push_back(where);
  }
  EXPECT_EQ(seen.size(), 1U);
}

TEST_F(GeneratorUnwinding, AHundredThousandLiveAtOnce) {
  const std::size_t count = coir_test::max_live_fibers;
  std::vector<generator<std::size_t>> many;
  many.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    many.emplace_back([i, c = counted(0)](auto& yield) {
      yield(i);
      yield(2 * i);
    });
  for (int round = 1; round <= 2; ++round)
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(many[i].next(), static_cast<std::size_t>(round) * i);
  for (std::size_t i = 0; i < count; i += 2) ASSERT_EQ(many[i].next(), std::nullopt);
}

}  // namespace
