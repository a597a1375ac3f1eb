// Each way in which a schedule fails, and that the next ones are not disturbed by it.
#include <coir/explore.hpp>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include <coir/coir.hpp>
#include <coir/io.hpp>

using namespace std::chrono_literals;
using coir::failure_kind;

namespace {

TEST(ExploreKinds, AnExceptionOfAGoFiberDoesNotEndTheProcess) {
  const coir::exploration e =
      coir::explore({.schedules = 10}, [] { coir::go([] { throw std::out_of_range("of a fiber"); }); });
  EXPECT_EQ(e.kind(), failure_kind::exception);
  EXPECT_EQ(e.what(), "std::out_of_range: of a fiber");
  EXPECT_EQ(e.schedules(), 1U);
}

TEST(ExploreKinds, AFailedAssertionIsTheExplorationsAlone) {
  const coir::exploration e = coir::explore({.schedules = 100}, [] {
    int x = 0;
    coir::mutex lock;
    auto other = coir::spawn([&] {
      lock.lock();
      x = 1;
      lock.unlock();
    });
    lock.lock();
    EXPECT_EQ(x, 0) << "the other one was first";
    lock.unlock();
    other.get();
  });
  EXPECT_EQ(e.kind(), failure_kind::assertion);
  EXPECT_NE(e.what().find("kinds_test.cpp"), std::string::npos) << e;
  EXPECT_NE(e.what().find("the other one was first"), std::string::npos) << e;
}

TEST(ExploreKinds, AFiberLeftBehindIsADeadlock) {
  const coir::exploration e = coir::explore({.schedules = 10}, [] {
    auto ch = coir::make_chan<int>();
    coir::go([ch] { ch.send(1); });
  });
  EXPECT_EQ(e.kind(), failure_kind::deadlock);
  EXPECT_NE(e.report().find("chan send"), std::string::npos) << e;
}

TEST(ExploreKinds, ALoopThatNeverEndsIsALivelock) {
  const coir::exploration e = coir::explore({.schedules = 10, .max_steps = 10'000}, [] {
    for (;;) coir::yield();
  });
  EXPECT_EQ(e.kind(), failure_kind::livelock);
}

TEST(ExploreKinds, WhatCannotBeUnwoundIsAbandoned) {
  const auto spin = [] {
    coir::mutex lock;
    lock.lock();
    while (!lock.try_lock()) {
    }
  };
  for (int i = 0; i < 3; ++i) {
    const coir::exploration e = coir::explore({.schedules = 10, .max_steps = 1000, .shrink_budget = 2}, spin);
    EXPECT_EQ(e.kind(), failure_kind::livelock);
  }
  EXPECT_TRUE(coir::explore({.schedules = 10}, [] { coir::yield(); }));
}

TEST(ExploreKinds, WhatGoesByMoreThanTheScheduleIsNondeterminism) {
  int runs = 0;
  const coir::exploration e = coir::explore({.schedules = 10}, [&] {
    for (int i = 0; i < runs; ++i) coir::yield();
    ++runs;
  });
  EXPECT_EQ(e.kind(), failure_kind::nondeterminism);
}

TEST(ExploreKinds, AReplayOfAnotherProgramIsNondeterminism) {
  const coir::exploration e = coir::explore({.schedules = 1}, [] { coir::yield(); });
  const coir::exploration other = coir::replay(e.schedule(), [] {
    coir::yield();
    coir::yield();
  });
  EXPECT_EQ(other.kind(), failure_kind::nondeterminism);
  EXPECT_THROW(coir::replay("nonsense", [] {}), std::invalid_argument);
}

TEST(ExploreKinds, ADeadlockUnwindsTheDeepestFirst) {
  int unwound = 0;
  const coir::exploration e = coir::explore({.schedules = 1, .shrink_budget = 0}, [&] {
    coir::mutex lock;
    lock.lock();
    auto child = coir::spawn([&] {
      struct at_end {
        int& n;
        ~at_end() { ++n; }
      } counts{unwound};
      lock.lock();
    });
    child.get();
  });
  EXPECT_EQ(e.kind(), failure_kind::deadlock);
  EXPECT_GE(unwound, 1);
}

TEST(ExploreRefuses, SecondRuntimesDescriptorsAndPlainThreads) {
  const coir::exploration e = coir::explore({.schedules = 1}, [] {
    EXPECT_THROW(coir::runtime(), std::logic_error);
    EXPECT_THROW(coir::run([] {}), std::logic_error);
    EXPECT_THROW(coir::explore({}, [] {}), std::logic_error);
    EXPECT_THROW(coir::watched_fd(0), std::logic_error);
    auto ch = coir::make_chan<int>(1);
    bool refused = false;
    std::thread([&] {
      try {
        ch.send(1);
      } catch (const std::logic_error&) {
        refused = true;
      }
    }).join();
    EXPECT_TRUE(refused);
  });
  EXPECT_TRUE(e) << e;
}

TEST(ExploreTime, IsVirtualAndTheSameInEachSchedule) {
  const auto before = std::chrono::steady_clock::now();
  const coir::clock::time_point start{std::chrono::hours(1)};
  const coir::exploration e = coir::explore({.schedules = 100}, [&] {
    EXPECT_EQ(coir::clock::now(), start);
    coir::sleep_for(24h);
    EXPECT_EQ(coir::clock::now(), start + 24h);
    auto late = coir::make_chan<int>();
    int value = 0;
    EXPECT_EQ(late.recv_for(value, 1h), coir::recv_status::timed_out);
    EXPECT_EQ(coir::clock::now(), start + 25h);
    EXPECT_THROW(coir::timeout(1min, [] { coir::sleep_for(1h); }), coir::timed_out);
    auto [ctx, cancel] = coir::with_timeout(coir::context::background(), 1h);
    ctx.done().recv();
    EXPECT_EQ(coir::clock::now(), start + 26h + 1min);
  });
  EXPECT_TRUE(e) << e;
  EXPECT_LT(std::chrono::steady_clock::now() - before, 100s);
}

TEST(ExploreTime, TimersOfOneInstantFireInEveryOrder) {
  bool first_was[2] = {false, false};
  const coir::exploration e = coir::explore({.schedules = 1000, .strategy = coir::dfs(0)}, [&] {
    std::atomic<int> order = 0;
    coir::wait_group both;
    for (const int i : {0, 1})
      both.go([&, i] {
        coir::sleep_for(1s);
        if (order++ == 0) first_was[i] = true;
      });
    both.wait();
  });
  EXPECT_TRUE(e) << e;
  EXPECT_TRUE(e.exhausted());
  EXPECT_TRUE(first_was[0] && first_was[1]);
}

TEST(ExploreTime, SettleWaitsUntilTheOthersAreBlocked) {
  const coir::exploration e = coir::explore({.schedules = 200, .strategy = coir::random_walk()}, [] {
    std::atomic<int> steps = 0;
    coir::go([&] {
      for (; steps < 5; ++steps) coir::yield();
    });
    coir::settle();
    EXPECT_EQ(steps, 5);
  });
  EXPECT_TRUE(e) << e;
}

}  // namespace
