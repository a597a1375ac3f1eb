// The idle protocol as a user sees it: what is made ready runs, though the last worker is just going to sleep, and a
// process with nothing to do uses no CPU.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <sys/resource.h>

#include <coir/metrics.hpp>

#include "base/cpu_count.hpp"
#include "counted.hpp"
#include "gate.hpp"

namespace {

using coir_test::scaled;
using coir_test::until_blocked;
using runtime_test::gate;
using namespace std::chrono_literals;

class Idle : public runtime_test::leak_checked {};

/// What the process has used of the machine.
struct usage {
  std::chrono::steady_clock::time_point time;
  std::chrono::microseconds cpu;
  long switches;  // of threads

  static usage now() {
    rusage u{};
    ::getrusage(RUSAGE_SELF, &u);
    const auto of = [](const timeval& t) {
      return std::chrono::seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec);
    };
    return {std::chrono::steady_clock::now(), of(u.ru_utime) + of(u.ru_stime), u.ru_nvcsw + u.ru_nivcsw};
  }
};

/// A few hundred turns at most, another number each time.
class jitter {
 public:
  void operator()() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    for (std::uint64_t i = (state_ >> 33) % 400; i > 0; --i) asm volatile("" ::: "memory");
  }

 private:
  std::uint64_t state_ = 1;
};

/// Within some seconds there is a tenth of one in which the process does nothing: workers search for a moment before
/// they sleep, and a machine that is busy with other things takes its time to let them. A thread that spins, or that
/// wakes again and again, leaves no such tenth. One in which the process itself may have been held up does not count.
void expect_no_cpu_is_used() {
  usage before = usage::now();
  for (int attempt = 0; attempt < 60; ++attempt) {
    std::this_thread::sleep_for(100ms);
    const usage after = usage::now();
    const bool held_up = after.time - before.time > 120ms;
    if (!held_up && after.cpu - before.cpu < 5ms && after.switches - before.switches < 20) return;
    before = after;
  }
  ADD_FAILURE() << "the process does not come to rest";
}

TEST_P(Idle, AnIdleRuntimeUsesNoCpu) {
  coir::runtime rt{opts()};
  rt.run([] {});
  expect_no_cpu_is_used();
}

TEST_P(Idle, ParkedFibersUseNoCpu) {
  coir::runtime rt{opts()};
  gate door;
  std::vector<coir::task<void>> tasks;
  for (int i = 0; i < 100; ++i) tasks.push_back(rt.spawn([&] { door.pass(); }));
  coir::task<void> sleeper = rt.spawn([] { coir::sleep_for(1h); });
  until_blocked(tasks);
  until_blocked(sleeper);
  expect_no_cpu_is_used();
  door.open();
}

TEST_P(Idle, NoCpuIsUsedAfterAStormOfWakeUps) {
  coir::runtime rt{opts()};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      jitter wait;
      for (int k = 0; k < scaled(3000); ++k) {
        rt.go([] {});
        if (k % 2 == 0) rt.spawn([] { coir::yield(); }).get();
        wait();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  rt.wait();
  expect_no_cpu_is_used();
}

// ---- no lost wake-up: each round ends only if both sides were woken -------------------------------------------------

/// Of each of the next three tests: with three numbers of processors they make a million.
const int idle_rounds = scaled(120'000);

TEST_P(Idle, AFiberMadeReadyByAThreadRuns) {
  coir::runtime rt{opts()};
  gate to_fiber, to_thread;
  coir::task<void> fiber = rt.spawn([&] {
    for (int i = 0; i < idle_rounds; ++i) {
      to_fiber.pass();
      to_fiber.shut();
      to_thread.open();
    }
  });
  jitter wait;
  for (int i = 0; i < idle_rounds; ++i) {
    wait();
    to_fiber.open();
    to_thread.pass();
    to_thread.shut();
  }
  fiber.get();
}

TEST_P(Idle, AFiberStartedByAThreadRuns) {
  coir::runtime rt{opts()};
  jitter wait;
  std::atomic<int> ran{0};
  for (int i = 0; i < idle_rounds; ++i) {
    rt.go([&] { ran.fetch_add(1, std::memory_order_release); });
    // Waits without a system call, so that the worker is met in each stage of going to sleep.
    for (int spins = 0; ran.load(std::memory_order_acquire) != i + 1; ++spins)
      if (spins > 1000) std::this_thread::yield();
    wait();
  }
}

TEST_P(Idle, FibersOfTwoRuntimesWakeEachOther) {
  coir::runtime one{opts()}, two{opts()};
  gate ping, pong;
  coir::task<void> a = one.spawn([&] {
    jitter wait;
    for (int i = 0; i < idle_rounds; ++i) {
      wait();
      ping.open();
      pong.pass();
      pong.shut();
    }
  });
  coir::task<void> b = two.spawn([&] {
    jitter wait;
    for (int i = 0; i < idle_rounds; ++i) {
      ping.pass();
      ping.shut();
      wait();
      pong.open();
    }
  });
  a.get();
  b.get();
}

// The last worker that goes to sleep must see the timer that was armed a moment before.
TEST_P(Idle, AFiberMadeReadyByATimerRuns) {
  run([] {
    jitter wait;
    for (int i = 0; i < scaled(20'000); ++i) {
      coir::sleep_for(std::chrono::nanoseconds(i % 64 * 100));
      wait();
    }
  });
}

TEST_P(Idle, FibersThatSpinUntilTheirChildHasRunFinish) {
  if (GetParam() == 1) GTEST_SKIP() << "the child needs a processor beside its parent's";
  run([] {
    jitter wait;
    for (int i = 0; i < scaled(5'000); ++i) {
      std::atomic<bool> ran{false};
      coir::go([&] { ran = true; });
      while (!ran) wait();
    }
  });
}

TEST_P(Idle, TimersAreKeptThoughTheWorkerThatWaitsForThemIsGivenOtherWork) {
  if (GetParam() == 1) GTEST_SKIP() << "needs a processor beside the one that computes";
  coir::runtime rt{opts()};
  std::atomic<bool> woke{false};
  coir::task<void> sleeper = rt.spawn([&] {
    coir::sleep_for(30ms);
    woke = true;
  });
  coir_test::until([&] { return sleeper.status() != coir::task_status::queued; });
  std::this_thread::sleep_for(5ms);  // every worker is asleep by now, or else it is a little easier
  coir::task<bool> computes = rt.spawn([&] {
    const auto give_up = std::chrono::steady_clock::now() + 20s;
    while (!woke && std::chrono::steady_clock::now() < give_up) {
    }
    return woke.load();
  });
  EXPECT_TRUE(computes.get());
}

// With more workers awake than there are CPUs, some are descheduled in the middle of a fiber, and their timers are
// late. That such a fiber stands still is no reason to wake one more worker.
TEST(IdleWorkers, AreNotWokenBeyondTheNumberOfCpusForFibersThatRunBriefly) {
  if (coir_test::thread_sanitizer) GTEST_SKIP() << "its own locks block the threads that begin fibers";
  constexpr unsigned processors = 64;
  const std::size_t cpus = coir::detail::usable_cpus();
  if (cpus > processors / 4) GTEST_SKIP() << "too many CPUs";
  coir::runtime rt{{.processors = processors}};
  // Each fiber begins on a stack that was never used, so it takes some microseconds.
  const std::size_t fibers = coir_test::max_live_fibers;
  rt.run([&] {
    for (std::size_t i = 0; i < fibers; ++i) coir::go([i] { coir::sleep_for(50ms + std::chrono::microseconds(i)); });
  });
  rt.wait();
  EXPECT_LE(rt.metrics().threads, cpus + 3);  // without that rule: up to 44 on 2 CPUs
}

/// With processors to spare, but all CPUs taken by fibers that yield: a fiber that starts others one after another, and
/// calls wait_for() for each, gets on. So do they.
template <class Wait>
void expect_children_to_run(Wait wait_for) {
  constexpr unsigned processors = 16;
  const std::size_t cpus = coir::detail::usable_cpus();
  if (cpus > processors / 2) GTEST_SKIP() << "too many CPUs";
  std::atomic<bool> stop{false};
  coir::runtime rt{{.processors = processors}};
  for (std::size_t i = 0; i < cpus + 1; ++i)
    rt.go([&] {
      while (!stop) coir::yield();
    });
  coir::task<int> parent = rt.spawn([&] {
    int ran = 0;
    for (int i = 0; i < 5; ++i) {
      std::atomic<bool> child{false};
      coir::task<void> running = coir::spawn([&] { child = true; });
      wait_for(child);
      if (child) ++ran;
      running.get();
    }
    return ran;
  });
  EXPECT_EQ(parent.get(), 5);
  stop = true;
}

TEST(IdleWorkers, TakeWhatWaitsBehindAFiberThatComputesThoughNoCpuIsFree) {
  expect_children_to_run([](const std::atomic<bool>& child) {
    const auto give_up = std::chrono::steady_clock::now() + 20s;
    while (!child && std::chrono::steady_clock::now() < give_up) {
    }
  });
}

TEST(IdleWorkers, TakeWhatWaitsBehindAFiberThatBlocksItsThreadThoughNoCpuIsFree) {
  expect_children_to_run([](const std::atomic<bool>& child) {
    for (int i = 0; i < 2'000 && !child; ++i) std::this_thread::sleep_for(10ms);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, Idle, coir_test::processors, coir_test::processors_name);

}  // namespace
