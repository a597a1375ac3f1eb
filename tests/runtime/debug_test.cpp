// What COIR_DEBUG makes the runtime watch: slow slices and the use of stacks.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include <unistd.h>

#include <coir/stack_use.hpp>

#include "counted.hpp"

namespace {

class Debug : public coir_test::with_processors {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  /// Runs f with COIR_DEBUG set; for a process of its own.
  template <class F>
  void run_watched(const char* what, F&& f) const {
    ::setenv("COIR_DEBUG", what, 1);
    run(std::forward<F>(f));
    std::exit(0);
  }
};

void compute(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

/// By the thread's own clock: a slice is so much time of a CPU, which others may have on a loaded machine.
void compute_on_cpu(std::chrono::milliseconds time) {
  const auto cpu = [] {
    timespec t{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
  };
  const auto end = cpu() + time;
  while (cpu() < end) {
  }
}

TEST_P(Debug, AFiberThatComputesTooLongIsReported) {
  EXPECT_EXIT(run_watched("slowslice=20",
                          [] {
                            coir::spawn([] {
                              coir::this_fiber::set_name("slow");
                              compute(std::chrono::milliseconds(300));
                            }).get();
                          }),
              testing::ExitedWithCode(0),
              "coir: fiber [0-9]+ \"slow\", spawned at .*debug_test.cpp:[0-9]+ has kept its processor for [0-9]+ ms");
}

TEST_P(Debug, AFiberThatBlocksItsThreadTooLongIsReportedWithABacktrace) {
  EXPECT_EXIT(run_watched("slowslice=20",
                          [] {
                            ::usleep(1);
                            const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
                            while (std::chrono::steady_clock::now() < end) ::usleep(100'000);
                          }),
              testing::ExitedWithCode(0), "has kept its processor for [0-9]+ ms; it is in\n.*\\[0x[0-9a-f]+\\]");
}

TEST_P(Debug, ARetakenProcessorIsReportedBefore) {
  EXPECT_EXIT(run_watched("slowslice=60000",
                          [&] {
                            std::vector<coir::task<void>> all;
                            for (unsigned i = 0; i < 2 * GetParam(); ++i)
                              all.push_back(coir::spawn([] { compute_on_cpu(std::chrono::milliseconds(100)); }));
                            for (coir::task<void>& t : all) t.get();
                          }),
              testing::ExitedWithCode(0), "has kept its processor for [0-9]+ ms; others wait; it is in");
}

TEST_P(Debug, FibersThatBlockAsFibersDoAreNotReported) {
  EXPECT_EXIT(run_watched("slowslice=1000",
                          [] {
                            for (int i = 0; i < 20; ++i) {
                              coir::sleep_for(std::chrono::milliseconds(1));
                              coir::yield();
                            }
                          }),
              testing::ExitedWithCode(0), "^$");
}

[[gnu::noinline]] std::size_t touch(std::size_t bytes) {
  volatile char frame[1024];
  for (std::size_t i = 0; i < sizeof frame; i += 64) frame[i] = 1;
  const std::size_t deeper = bytes <= sizeof frame ? 0 : touch(bytes - sizeof frame);
  asm volatile("" : : "r"(frame) : "memory");  // or the compiler makes a loop of it, with one frame
  return deeper + static_cast<std::size_t>(frame[64]);
}

TEST_P(Debug, TheUseOfStacksIsKnownBySpawnSite) {
  if (coir_test::address_sanitizer) GTEST_SKIP() << "frames are larger, or elsewhere";
  const auto check = [&] {
    ::setenv("COIR_DEBUG", "stackuse=1", 1);
    const unsigned line = __LINE__ + 3;
    run([] {
      for (int i = 0; i < 20; ++i) {
        coir::spawn([] { touch(100 * 1024); }).get();
        coir::spawn([] {}).get();
      }
    });
    const std::vector<coir::stack_use> uses = coir::stack_uses();
    const auto at = [&](unsigned l) {
      return *std::find_if(uses.begin(), uses.end(), [l](const coir::stack_use& u) { return u.line == l; });
    };
    const bool right = at(line).fibers == 20 && at(line).most > 100 * 1024 && at(line).most < 160 * 1024 &&
                       at(line + 1).fibers == 20 && at(line + 1).most < 32 * 1024 && uses.front().line == line;
    std::fprintf(stderr, "%zu and %zu bytes\n", at(line).most, at(line + 1).most);
    std::exit(right ? 0 : 1);
  };
  EXPECT_EXIT(check(), testing::ExitedWithCode(0), "");
}

TEST_P(Debug, WhatItDoesNotUnderstandIsNamed) {
  ::setenv("COIR_DEBUG", "stackuse=2", 1);
  coir_test::expect_throw_message<std::invalid_argument>([&] { run([] {}); }, "stackuse");
  ::unsetenv("COIR_DEBUG");
}

INSTANTIATE_TEST_SUITE_P(Processors, Debug, coir_test::processors, coir_test::processors_name);

}  // namespace
