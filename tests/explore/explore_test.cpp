// Explorations: what they find, that they find it again, and what they report.
#include <coir/explore.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include <coir/coir.hpp>

using namespace std::chrono_literals;
using coir::failure_kind;

namespace {

/// A counter that is read under a lock, and written under it again: in between others write.
void lose_an_update() {
  coir::mutex lock;
  int count = 0;
  const auto add = [&] {
    int seen = 0;
    {
      const std::scoped_lock held(lock);
      seen = count;
    }
    const std::scoped_lock held(lock);
    count = seen + 1;
  };
  coir::wait_group both;
  both.go(add);
  both.go(add);
  both.wait();
  if (count != 2) throw std::runtime_error("an update is lost");
}

void lock_in_opposite_orders() {
  coir::mutex a;
  coir::mutex b;
  coir::wait_group both;
  both.go([&] {
    const std::scoped_lock first(a);
    const std::scoped_lock second(b);
  });
  both.go([&] {
    const std::scoped_lock first(b);
    const std::scoped_lock second(a);
  });
  both.wait();
}

TEST(Explore, APassingProgramRunsAllSchedules) {
  int runs = 0;
  const coir::exploration e = coir::explore({.schedules = 100}, [&] {
    ++runs;
    auto answer = coir::spawn([] { return 42; });
    if (answer.get() != 42) throw std::logic_error("wrong");
  });
  EXPECT_TRUE(e) << e;
  EXPECT_EQ(e.schedules(), 100U);
  EXPECT_GE(runs, 100);
  EXPECT_EQ(e.kind(), failure_kind::none);
}

TEST(Explore, FindsALostUpdate) {
  for (const auto strategy : {coir::random_walk(), coir::pct(3), coir::dfs(2)}) {
    const coir::exploration e = coir::explore({.schedules = 1000, .strategy = strategy}, lose_an_update);
    EXPECT_EQ(e.kind(), failure_kind::exception) << e;
    EXPECT_NE(e.what().find("an update is lost"), std::string::npos) << e;
  }
}

TEST(Explore, PctInterruptsAFiberInFavourOfOneThatHasYielded) {
  const coir::exploration e = coir::explore({.schedules = 1000, .strategy = coir::pct(2)}, [] {
    coir::mutex lock;
    std::atomic<int> begun = 0;
    std::atomic<int> ended = 0;
    auto worker = coir::spawn([&] {
      ++begun;
      lock.lock();
      ++ended;
      lock.unlock();
    });
    coir::yield();
    const bool between = begun != ended;
    worker.get();
    if (between) throw std::runtime_error("seen in between");
  });
  EXPECT_EQ(e.kind(), failure_kind::exception) << e;
}

/// The fiber that was interrupted first goes on last: it has less priority than the one that was interrupted after it.
TEST(Explore, PctLetsTheFirstInterruptedFiberGoOnLast) {
  const coir::exploration e = coir::explore({.schedules = 10'000, .strategy = coir::pct(3)}, [] {
    coir::mutex lock;
    std::array<std::atomic<char>, 6> order{};
    std::atomic<std::size_t> steps = 0;
    const auto two_steps = [&](char first, char second) {
      order[steps++] = first;
      lock.lock();
      order[steps++] = second;
      lock.unlock();
    };
    auto a = coir::spawn([&] { two_steps('a', 'A'); });
    auto b = coir::spawn([&] { two_steps('b', 'B'); });
    auto c = coir::spawn([&] { two_steps('c', 'C'); });
    a.get();
    b.get();
    c.get();
    if (std::equal(order.begin(), order.end(), "abcCBA")) throw std::runtime_error("nested");
  });
  EXPECT_EQ(e.kind(), failure_kind::exception) << e;
}

TEST(Explore, FindsADeadlock) {
  const coir::exploration e = coir::explore({.schedules = 1000}, lock_in_opposite_orders);
  EXPECT_EQ(e.kind(), failure_kind::deadlock) << e;
  std::ostringstream out;
  out << e;
  EXPECT_NE(out.str().find("mutex lock"), std::string::npos) << e;
  EXPECT_NE(out.str().find("explore_test.cpp"), std::string::npos) << e;
}

TEST(Explore, AReplayFailsInTheSameWay) {
  const coir::exploration e = coir::explore({.schedules = 1000}, lose_an_update);
  ASSERT_TRUE(e.failed());
  for (int i = 0; i < 1000; ++i) {
    const coir::exploration again = coir::replay(e.schedule(), lose_an_update);
    ASSERT_EQ(again.kind(), e.kind()) << again;
    ASSERT_EQ(again.what(), e.what());
    ASSERT_EQ(again.steps(), e.steps());
    ASSERT_EQ(again.schedule(), e.schedule());
  }
}

}  // namespace
