// A stack overflow ends the process by SIGSEGV after a report that names the fiber, its spawn site and its stack's
// size; any other fault is whose it was before.
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <coir/coroutine.hpp>
#include <coir/generator.hpp>

#include "counted.hpp"

namespace {

class Overflow : public coir_test::with_processors {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

#if defined(__clang__)
#pragma clang diagnostic ignored "-Winfinite-recursion"
#elif defined(__GNUC__)
#pragma GCC diagnostic ignored "-Winfinite-recursion"
#endif

volatile char sink;

[[gnu::noinline]] int descend(int depth) {
  volatile char frame[1024];
  frame[0] = static_cast<char>(depth);
  const int below = descend(depth + 1);
  sink = frame[0];
  return below + frame[0];
}

TEST_P(Overflow, NamesTheFiberItsSpawnSiteAndItsStack) {
  const std::string line = std::to_string(__LINE__ + 3);
  const auto overflow = [&] {
    run([] {
      coir::spawn([] {
        coir::this_fiber::set_name("deep");
        coir::yield();
        descend(0);
      }).get();
    });
  };
  EXPECT_EXIT(overflow(), testing::KilledBySignal(SIGSEGV),
              "stack overflow in fiber [0-9]+ \"deep\", spawned at .*overflow_test.cpp:" + line);
}

TEST_P(Overflow, TellsTheSizeOfTheStackAndHowFarBelow) {
  coir::options o = opts();
  o.stack_size = 64 * 1024;
  EXPECT_EXIT(coir::run(o, [] { descend(0); }), testing::KilledBySignal(SIGSEGV),
              "its stack of 65536 bytes .options::stack_size; 6[0-9]{4} are usable. is used up\n"
              "coir: the access was to 0x[0-9a-f]+, [0-9]+ bytes below it");
}

TEST_P(Overflow, InAFiberThatHasMovedBetweenThreads) {
  EXPECT_EXIT(run([] {
                for (int i = 0; i < 100; ++i) coir::spawn([] { coir::yield(); }).get();
                coir::blocking([] { ::usleep(1000); });
                coir::yield();
                descend(0);
              }),
              testing::KilledBySignal(SIGSEGV), "stack overflow in fiber [0-9]+, spawned at");
}

const coir::coroutine_options small_body{.stack_size = 64 * 1024};

coir::generator<int> overflowing() {
  return coir::generator<int>(small_body, [](auto& yield) {
    yield(1);
    yield(descend(0));
  });
}

TEST_P(Overflow, InTheBodyOfAGeneratorNamesTheBodyAndTheFiberThatRunsIt) {
  const std::string line = std::to_string(__LINE__ + 3);
  const auto overflow = [&] {
    run([] {
      coir::spawn([] {
        coir::this_fiber::set_name("consumer");
        for (int i : overflowing()) sink = static_cast<char>(i);
      }).get();
    });
  };
  EXPECT_EXIT(overflow(), testing::KilledBySignal(SIGSEGV),
              "stack overflow in the body of a generator or coroutine, run by fiber [0-9]+ \"consumer\", spawned at "
              ".*overflow_test.cpp:" +
                  line +
                  ": its stack of 65536 bytes .coroutine_options::stack_size; 6[0-9]{4} are usable. is used up\n"
                  "coir: the access was to 0x[0-9a-f]+, [0-9]+ bytes below it; in\n.*\\[0x[0-9a-f]+\\]");
}

// The body began on one thread, and overflows where another fiber goes on with it.
TEST_P(Overflow, InABodyThatAnotherFiberHasBegun) {
  const auto overflow = [&] {
    run([] {
      coir::coroutine<int> deep(small_body, [](auto& self) {
        self.yield(1);
        self.yield(descend(0));
      });
      coir::spawn([&] { deep.next(); }).get();
      coir::spawn([&] {
        coir::this_fiber::set_name("second");
        deep.next();
      }).get();
    });
  };
  EXPECT_EXIT(overflow(), testing::KilledBySignal(SIGSEGV), "generator or coroutine, run by fiber [0-9]+ \"second\"");
}

// The consumer of a generator is a part of it no more than a fiber is of the function that it calls.
TEST_P(Overflow, OfAFiberThatHasAGeneratorSuspendedIsTheFibers) {
  EXPECT_EXIT(run([] {
                auto numbers = overflowing();
                auto first = numbers.begin();
                descend(*first);
              }),
              testing::KilledBySignal(SIGSEGV), "stack overflow in fiber [0-9]+, spawned at");
}

TEST(OverflowWithoutRuntime, InTheBodyOfAGeneratorNamesTheThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto consume = [] {
    for (int i : overflowing()) sink = static_cast<char>(i);
  };
  EXPECT_EXIT(consume(), testing::KilledBySignal(SIGSEGV),
              "generator or coroutine, run by thread [0-9]+: its stack of");
  EXPECT_EXIT(std::thread(consume).join(), testing::KilledBySignal(SIGSEGV),
              "generator or coroutine, run by thread [0-9]+: its stack of");
}

// More than are kept when they have ended.
TEST(OverflowWithoutRuntime, InABodyOnAStackThatWasGivenBackBefore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto consume = [] {
    constexpr int many = coir_test::thread_sanitizer ? 2'000 : 6'000;
    for (int round = 0; round < 2; ++round) {
      std::vector<coir::generator<int>> all;
      for (int i = 0; i < many; ++i) all.push_back(overflowing());
      if (round == 0) continue;
      for (auto& each : all) sink = static_cast<char>(*each.begin());
      ++all[many / 2].begin();
    }
  };
  EXPECT_EXIT(consume(), testing::KilledBySignal(SIGSEGV),
              "generator or coroutine, run by thread [0-9]+: its stack of 65536 bytes");
}

TEST_P(Overflow, AnotherFaultIsNotTakenForOne) {
  const auto crash = [&] {
    run([] {
      int* volatile nowhere = reinterpret_cast<int*>(8);
      *nowhere = 1;
    });
  };
  EXPECT_EXIT(
      {
        std::signal(SIGSEGV, SIG_DFL);
        crash();
      },
      testing::KilledBySignal(SIGSEGV), "");
}

void handler_of_before(int) {
  constexpr char text[] = "the handler of before\n";
  (void)!::write(STDERR_FILENO, text, sizeof text - 1);
  ::_exit(7);
}

TEST_P(Overflow, AnotherFaultGoesToWhoeverCaughtItBefore) {
  EXPECT_EXIT(
      {
        std::signal(SIGSEGV, handler_of_before);
        run([] {
          int* volatile nowhere = reinterpret_cast<int*>(8);
          *nowhere = 1;
        });
      },
      testing::ExitedWithCode(7), "the handler of before");
}

TEST_P(Overflow, AnOverflowIsNotLeftToWhoeverCaughtFaultsBefore) {
  EXPECT_EXIT(
      {
        std::signal(SIGSEGV, handler_of_before);
        run([] { descend(0); });
      },
      testing::KilledBySignal(SIGSEGV), "stack overflow in fiber");
}

/// A large frame of which the far end alone is touched: what lies in between is stepped over.
template <std::size_t Frame>
[[gnu::noinline]] int leap(int depth) {
  volatile char frame[Frame];
  frame[0] = static_cast<char>(depth);
  const int below = leap<Frame>(depth + 1);
  return below + frame[0];
}

// Smaller than a guard, so that it cannot step over one into the next stack. The fibers beside the one that overflows
// have stacks above and below.
TEST_P(Overflow, AFrameOfManyPagesDoesNotStepOverTheGuard) {
  coir::options o = opts();
  for (const std::size_t size : {std::size_t{16} * 1024, std::size_t{64} * 1024, std::size_t{256} * 1024}) {
    o.stack_size = size;
    const auto overflow_by = [&](int (*leap)(int)) {
      coir::run(o, [leap] {
        std::vector<coir::task<void>> all;
        for (int i = 0; i < 8; ++i) all.push_back(coir::spawn([] { coir::yield(); }));
        coir::spawn([leap] { sink = static_cast<char>(leap(0)); }).get();
      });
    };
    for (const auto leap : {leap<8 * 1024>, leap<20 * 1024>, leap<60 * 1024>})
      EXPECT_EXIT(overflow_by(leap), testing::KilledBySignal(SIGSEGV), "stack overflow in fiber");
  }
}

TEST(OverflowWithoutRuntime, AFrameOfManyPagesDoesNotStepOverTheGuardOfABody) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto overflow_by = [&](int (*leap)(int)) {
    std::vector<coir::generator<int>> all;
    for (int i = 0; i < 8; ++i) {
      all.emplace_back(small_body, [leap, i](auto& yield) {
        yield(i);
        yield(leap(0));
      });
    }
    for (auto& each : all) sink = static_cast<char>(*each.begin());
    ++all[4].begin();
  };
  for (const auto leap : {leap<8 * 1024>, leap<20 * 1024>, leap<60 * 1024>})
    EXPECT_EXIT(overflow_by(leap), testing::KilledBySignal(SIGSEGV), "stack overflow in the body of a generator");
}

TEST_P(Overflow, DeepButSufficientStacksWork) {
  coir::options o = opts();
  o.stack_size = 4 * 1024 * 1024;
  struct walk {
    static int down(int depth) {
      volatile char frame[1024];
      frame[0] = static_cast<char>(depth);
      return depth == 0 ? 0 : down(depth - 1) + frame[0] * 0 + 1;
    }
  };
  EXPECT_EQ(coir::run(o, [] { return walk::down(2500); }), 2500);
}

INSTANTIATE_TEST_SUITE_P(Processors, Overflow, coir_test::processors, coir_test::processors_name);

}  // namespace
