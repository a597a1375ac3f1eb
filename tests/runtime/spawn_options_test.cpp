// spawn_options: a name from the first moment on, and a stack of a size of its own.
#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <coir/dump.hpp>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using coir::spawn_options;
using coir_test::until_blocked;
using runtime_test::counted;
using runtime_test::gate;

class SpawnOptions : public runtime_test::leak_checked {};

constexpr std::size_t KiB = 1024;

/// Uses so much stack, in frames of 4 KiB, and returns how many.
[[gnu::noinline]] std::size_t use_stack(std::size_t bytes) {
  volatile char frame[4 * KiB];
  frame[0] = 0;
  // Others might look at the frame: without this Clang makes one frame and a loop of the recursion.
  asm volatile("" : : "r"(frame) : "memory");
  const std::size_t below = bytes <= sizeof frame ? 0 : use_stack(bytes - sizeof frame);
  asm volatile("" : : "r"(frame) : "memory");
  return below + 1;
}

TEST_P(SpawnOptions, GiveTheFiberItsName) {
  coir::runtime rt{opts()};
  const auto name = [] { return coir::this_fiber::name(); };
  EXPECT_EQ(rt.spawn({.name = "from outside"}, name).get(), "from outside");
  EXPECT_EQ(rt.spawn({}, name).get(), "");
  rt.run([&] {
    EXPECT_EQ(coir::spawn({.name = "a reader"}, name).get(), "a reader");
    std::string seen;
    gate done;
    coir::go({.name = "a writer"}, [&] {
      seen = coir::this_fiber::name();
      done.open();
    });
    done.pass();
    EXPECT_EQ(seen, "a writer");
    EXPECT_EQ(coir::spawn(name).get(), "");  // on the same stack, perhaps
  });
}

TEST_P(SpawnOptions, TheNameShowsInDumpsAndDeadlocks) {
  gate never;
  std::string dumped;
  coir_test::expect_throw_message<coir::deadlock>(
      [&] {
        run([&] {
          coir::task<void> t = coir::spawn({.name = "the hopeless", .stack_size = 64 * KiB}, [&] { never.pass(); });
          until_blocked(t);
          std::ostringstream out;
          coir::dump(out);
          dumped = out.str();
          t.get();
        });
      },
      "\"the hopeless\"");
  EXPECT_NE(dumped.find("the hopeless"), std::string::npos) << dumped;
}

TEST_P(SpawnOptions, TakeWhatGoAndSpawnTake) {
  run([] {
    EXPECT_EQ(*coir::spawn({.name = "x"}, [own = std::make_unique<int>(7)]() mutable { return std::move(own); }).get(),
              7);
    int there = 1;
    EXPECT_EQ(&coir::spawn({.stack_size = 32 * KiB}, [&]() -> int& { return there; }).get(), &there);
    const spawn_options kept{.name = "kept", .stack_size = 32 * KiB};
    EXPECT_THROW(coir::spawn(kept, [c = counted()] { throw std::out_of_range("x"); }).get(), std::out_of_range);
    EXPECT_EQ(kept.name, "kept");
  });
}

TEST_P(SpawnOptions, ALargeStackCanBeUsedToItsEnd) {
  run([] {
    EXPECT_EQ(coir::spawn({.stack_size = 8 * 1024 * KiB}, [] { return use_stack(7 * 1024 * KiB); }).get(), 7 * KiB / 4);
    for (int i = 0; i < 20; ++i) coir::go({.stack_size = 2 * 1024 * KiB}, [] { use_stack(1024 * KiB); });
  });
}

TEST_P(SpawnOptions, AStackSizeThatOptionsWouldNotTakeIsRefused) {
  coir::runtime rt{opts()};
  for (const std::size_t size : {std::size_t{1}, 16 * KiB - 1, (std::size_t{1} << 30) + 1}) {
    coir_test::expect_throw_message<std::invalid_argument>([&] { rt.go({.stack_size = size}, [] {}); },
                                                           "spawn_options::stack_size is " + std::to_string(size));
    rt.run([&] { EXPECT_THROW(static_cast<void>(coir::spawn({.stack_size = size}, [] {})), std::invalid_argument); });
  }
  EXPECT_EQ(rt.spawn({.stack_size = 16 * KiB}, [] { return 1; }).get(), 1);
  EXPECT_EQ(rt.spawn({.stack_size = std::size_t{1} << 30}, [] { return 2; }).get(), 2);
}

TEST_P(SpawnOptions, StacksOfAllSizesServeManyFibersOneAfterTheOther) {
  run([] {
    std::atomic<int> ran{0};
    for (int round = 0; round < coir_test::scaled(200); ++round) {
      std::vector<coir::task<void>> tasks;
      for (int i = 0; i < 20; ++i) {
        const auto size = static_cast<std::size_t>(i % 5) * 48 * KiB;  // some have the runtime's
        tasks.push_back(coir::spawn({.stack_size = size}, [&, i, c = counted()] {
          for (int k = i % 3; k > 0; --k) coir::yield();
          ++ran;
        }));
      }
      for (auto& t : tasks) t.get();
    }
    EXPECT_EQ(ran, 20 * coir_test::scaled(200));
  });
}

TEST_P(SpawnOptions, FibersWithThemAreCancelledLikeOthers) {
  gate never;
  coir::runtime rt{opts()};
  coir::task<void> t = rt.spawn({.stack_size = 64 * KiB}, [&, c = counted()] { never.pass(); });
  until_blocked(t);
  rt.cancel();
  EXPECT_THROW(t.get(), coir::task_cancelled);
}

TEST_P(SpawnOptions, ADeadlockUnwindsFibersWithThemLikeOthers) {
  gate never;
  EXPECT_THROW(run([&] { coir::go({.stack_size = 64 * KiB}, [&, c = counted()] { never.pass(); }); }), coir::deadlock);
}

TEST_P(SpawnOptions, OneThatComputesLosesItsProcessorAndEndsWithoutOne) {
  run([] {
    std::vector<coir::task<void>> tasks;
    for (int i = 0; i < 10; ++i)
      tasks.push_back(coir::spawn({.stack_size = 64 * KiB}, [] {
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(15);
        while (std::chrono::steady_clock::now() < until) {
        }
      }));
    for (auto& t : tasks) t.get();
  });
}

using SpawnOptionsDeath = SpawnOptions;

TEST_P(SpawnOptionsDeath, AnOverflowNamesTheFiberAndTheOption) {
  if (coir_test::address_sanitizer || coir_test::thread_sanitizer) GTEST_SKIP() << "it has its own report";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      run([] { coir::spawn({.name = "the deep", .stack_size = 64 * KiB}, [] { use_stack(1024 * KiB); }).get(); }),
      testing::KilledBySignal(SIGSEGV),
      "stack overflow in fiber [0-9]+ \"the deep\", spawned at .*: its stack of [0-9]+ bytes "
      "\\(spawn_options::stack_size; [0-9]+ are usable\\) is used up");
}

INSTANTIATE_TEST_SUITE_P(Processors, SpawnOptions, coir_test::processors, coir_test::processors_name);
INSTANTIATE_TEST_SUITE_P(Processors, SpawnOptionsDeath, testing::Values(1U), coir_test::processors_name);

}  // namespace
