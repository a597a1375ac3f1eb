// A stack overflow ends the process by SIGSEGV after a report that names the fiber, its spawn site and its stack's
// size; any other fault is whose it was before.
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

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
              "its stack of 6[0-9]{4} bytes .options::stack_size. is used up\ncoir: the access was to 0x[0-9a-f]+, "
              "[0-9]+ bytes "
              "below it");
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
  EXPECT_EXIT(
      overflow(), testing::KilledBySignal(SIGSEGV),
      "stack overflow in the body of a generator or coroutine, run by fiber [0-9]+ \"consumer\", spawned at "
      ".*overflow_test.cpp:" +
          line +
          ": its stack of [56][0-9]{4} bytes .coroutine_options::stack_size. is used up\ncoir: the access was to "
          "0x[0-9a-f]+, [0-9]+ bytes below it; in\n.*\\[0x[0-9a-f]+\\]");
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

// A frame larger than a page, whose far end is touched first.
TEST_P(Overflow, AFrameThatStepsOverAPageIsCaught) {
  struct walk {
    [[gnu::noinline]] static int down(int depth) {
      volatile char frame[3 * 4096];
      frame[0] = static_cast<char>(depth);
      const int below = down(depth + 1);
      return below + frame[0];
    }
  };
  EXPECT_EXIT(run([] { walk::down(0); }), testing::KilledBySignal(SIGSEGV), "stack overflow in fiber");
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
