// Virtual time (<coir/simulate.hpp>) in the ordinary library.
#include <coir/simulate.hpp>

#include <chrono>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include <coir/runtime.hpp>

using namespace std::chrono_literals;

namespace {

TEST(Simulate, SleepsTakeNoRealTime) {
  const auto before = std::chrono::steady_clock::now();
  const auto passed = coir::simulate([] {
    const coir::clock::time_point start = coir::clock::now();
    for (int i = 0; i < 1000; ++i) coir::sleep_for(1h);
    return coir::clock::now() - start;
  });
  EXPECT_EQ(passed, 1000h);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 100s);
}

TEST(Simulate, StartsAtTheSameInstantEachTime) {
  const auto now = [] { return coir::clock::now(); };
  EXPECT_EQ(coir::simulate(now), coir::simulate(now));
}

TEST(Simulate, FibersWakeInTheOrderOfTheirDeadlines) {
  std::vector<int> order;
  coir::simulate([&] {
    for (int i = 100; i-- > 0;)
      coir::go([&order, i] {
        coir::sleep_for(std::chrono::seconds(i));
        order.push_back(i);
      });
  });
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(Simulate, TimeStandsStillWhileAFiberRuns) {
  coir::simulate([] {
    bool woken = false;
    coir::go([&] {
      coir::sleep_for(1ms);
      woken = true;
    });
    for (int i = 0; i < 10'000; ++i) coir::yield();
    EXPECT_FALSE(woken);
    coir::sleep_for(1ms);
    coir::settle();
    EXPECT_TRUE(woken);
  });
}

TEST(Simulate, SettleWaitsUntilAllOthersAreBlocked) {
  coir::simulate([] {
    int steps = 0;
    coir::go([&] {
      for (; steps < 100; ++steps) coir::yield();
      coir::sleep_for(1s);
      ++steps;
    });
    const coir::clock::time_point before = coir::clock::now();
    coir::settle();
    EXPECT_EQ(steps, 100);
    EXPECT_EQ(coir::clock::now(), before);
    coir::sleep_for(1s);
    coir::settle();
    EXPECT_EQ(steps, 101);
  });
}

TEST(Simulate, ThrowsWhatItsFunctionThrows) {
  EXPECT_THROW(coir::simulate([] { throw std::out_of_range("here"); }), std::out_of_range);
}

TEST(Simulate, ReportsADeadlock) {
  EXPECT_THROW(coir::simulate([] {
                 coir::go([] { coir::sleep_for(1h); });
                 coir::detail::park_forever({"nothing"});
               }),
               coir::deadlock);
}

TEST(Simulate, SettleElsewhereIsAnError) {
  EXPECT_THROW(coir::settle(), coir::not_in_runtime);
  EXPECT_THROW(coir::run([] { coir::settle(); }), std::logic_error);
  EXPECT_THROW(coir::simulate([] { coir::simulate([] {}); }), std::logic_error);
}

}  // namespace
