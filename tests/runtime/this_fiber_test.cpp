// What a fiber asks about itself, and yield.
#include <atomic>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using coir_test::expect_throw_message;
using runtime_test::gate;

class ThisFiber : public runtime_test::leak_checked {};

TEST_P(ThisFiber, OutsideAFiberEverythingButIsFiberThrows) {
  EXPECT_FALSE(coir::this_fiber::is_fiber());
  expect_throw_message<coir::not_in_runtime>([] { coir::this_fiber::get_id(); }, "this_fiber::get_id");
  expect_throw_message<coir::not_in_runtime>([] { coir::this_fiber::set_name("x"); }, "this_fiber::set_name");
  expect_throw_message<coir::not_in_runtime>([] { static_cast<void>(coir::this_fiber::name()); }, "this_fiber::name");
  expect_throw_message<coir::not_in_runtime>([] { static_cast<void>(coir::this_fiber::stop_token()); },
                                             "this_fiber::stop_token");
  expect_throw_message<coir::not_in_runtime>([] { coir::yield(); }, "coir::yield");
}

TEST_P(ThisFiber, AForeignThreadIsNoFiberWhileFibersRun) {
  run([] {
    bool is_fiber = true;
    std::thread([&] {
      is_fiber = coir::this_fiber::is_fiber();
      EXPECT_THROW(coir::yield(), coir::not_in_runtime);
    }).join();
    EXPECT_FALSE(is_fiber);
    EXPECT_TRUE(coir::this_fiber::is_fiber());
  });
}

TEST_P(ThisFiber, IdsAreUniqueAndStable) {
  std::mutex lock;
  std::set<coir::fiber_id> seen;
  const int n = coir_test::scaled(5000);
  run([&] {
    for (int i = 0; i < n; ++i) {
      const auto body = [&, i] {
        const coir::fiber_id id = coir::this_fiber::get_id();
        if (i % 4 == 0) coir::yield();
        EXPECT_EQ(coir::this_fiber::get_id(), id);
        const std::lock_guard locked(lock);
        EXPECT_TRUE(seen.insert(id).second) << "used twice: " << id;
      };
      if (i % 2 == 0)
        coir::go(body);
      else
        coir::spawn(body).get();
    }
  });
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(n));
  EXPECT_EQ(seen.count(coir::fiber_id{}), 0U);
}

TEST_P(ThisFiber, IdsAreUniqueAcrossRuntimesAndThreads) {
  coir::runtime one{opts()}, two{opts()};
  std::set<coir::fiber_id> seen;
  for (int i = 0; i < 500; ++i) {
    for (coir::runtime* rt : {&one, &two}) {
      coir::task<coir::fiber_id> from_outside = rt->spawn([] { return coir::this_fiber::get_id(); });
      EXPECT_TRUE(seen.insert(from_outside.get()).second);
      EXPECT_TRUE(seen.insert(rt->run([] { return coir::this_fiber::get_id(); })).second);
    }
  }
}

TEST(FiberId, IsOrderedHashedAndPrinted) {
  const coir::fiber_id nobody, a{1}, b{2};
  EXPECT_LT(a, b);
  EXPECT_NE(a, b);
  EXPECT_EQ(nobody, coir::fiber_id{});
  const std::unordered_set<coir::fiber_id> set{a, b, a};
  EXPECT_EQ(set.size(), 2U);
  std::ostringstream out;
  out << b;
  EXPECT_EQ(out.str(), "2");
}

TEST_P(ThisFiber, ANameIsKeptAcrossBlockingAndIsTheFibersOwn) {
  run([] {
    EXPECT_EQ(coir::this_fiber::name(), "");
    coir::this_fiber::set_name("main of the test");
    gate door;
    coir::task<void> other = coir::spawn([&] {
      EXPECT_EQ(coir::this_fiber::name(), "");
      coir::this_fiber::set_name("other");
      door.pass();
      EXPECT_EQ(coir::this_fiber::name(), "other");
      coir::this_fiber::set_name("");
      EXPECT_EQ(coir::this_fiber::name(), "");
    });
    coir_test::until_blocked(other);
    door.open();
    other.get();
    EXPECT_EQ(coir::this_fiber::name(), "main of the test");
  });
}

TEST_P(ThisFiber, ANameIsNotInheritedByTheNextFiberOnTheStack) {
  run([] {
    for (int i = 0; i < 100; ++i) {
      coir::spawn([] { coir::this_fiber::set_name(std::string(100, 'n')); }).get();
      EXPECT_EQ(coir::spawn([] { return coir::this_fiber::name(); }).get(), "");
    }
  });
}

TEST_P(ThisFiber, YieldLetsTheOthersRun) {
  run([] {
    std::atomic<bool> ran{false};
    coir::go([&] { ran = true; });
    while (!ran) coir::yield();
  });
}

// Those that have begun: who has not started yet has no turn among those that yield.
TEST(Yield, OnOneProcessorTakesTurns) {
  const std::string order = coir_test::on_one_processor([] {
    std::mutex lock;
    std::string in_turn;
    std::atomic<int> begun{0};
    const auto turns = [&](char c) {
      return [&, c] {
        ++begun;
        while (begun != 3) coir::yield();
        for (int i = 0; i < 3; ++i) {
          {
            const std::lock_guard locked(lock);
            in_turn += c;
          }
          coir::yield();
        }
      };
    };
    coir::task<void> a = coir::spawn(turns('a')), b = coir::spawn(turns('b')), c = coir::spawn(turns('c'));
    a.wait();
    b.wait();
    c.wait();
    return in_turn;
  });
  ASSERT_EQ(order.size(), 9U);
  // Whoever is first: each round has each of them once.
  for (std::size_t round = 0; round < 3; ++round) {
    const std::string one = order.substr(round * 3, 3);
    EXPECT_EQ(std::set<char>(one.begin(), one.end()).size(), 3U) << order;
  }
}

TEST_P(ThisFiber, YieldWithNobodyElseReturns) {
  run([] {
    for (int i = 0; i < 1000; ++i) coir::yield();
  });
}

TEST_P(ThisFiber, LocalsSurviveManyMigrations) {
  run([] {
    std::vector<coir::task<void>> tasks;
    for (int i = 0; i < 50; ++i) {
      tasks.push_back(coir::spawn([i] {
        std::vector<int> values(100, i);
        double x = i;
        for (int k = 0; k < coir_test::scaled(500); ++k) {
          coir::yield();
          x += 0.5;
          for (const int v : values) ASSERT_EQ(v, i);
        }
        EXPECT_EQ(x, i + 0.5 * coir_test::scaled(500));
      }));
    }
    for (coir::task<void>& t : tasks) t.get();
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, ThisFiber, coir_test::processors, coir_test::processors_name);

}  // namespace
