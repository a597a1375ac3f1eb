// A stack overflow ends the process by SIGSEGV after a report that names the fiber, its spawn site and its stack's
// size; any other fault is whose it was before.
#include <csignal>
#include <cstdio>
#include <string>

#include <unistd.h>

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
