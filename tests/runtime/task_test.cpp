// task<R>: joining, results, exceptions, timed waits.
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using coir::task_status;
using coir_test::expect_throw_message;
using coir_test::until_blocked;
using runtime_test::counted;
using runtime_test::gate;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

class Task : public runtime_test::leak_checked {};

TEST_P(Task, GetReturnsTheResult) {
  run([] {
    EXPECT_EQ(coir::spawn([] { return 42; }).get(), 42);
    EXPECT_EQ(coir::spawn([] { return std::string("text"); }).get(), "text");
    coir::spawn([] {}).get();
    int object = 0;
    int& r = coir::spawn([&]() -> int& { return object; }).get();
    EXPECT_EQ(&r, &object);
    EXPECT_EQ(*coir::spawn([] { return std::make_unique<int>(5); }).get(), 5);
    EXPECT_EQ(coir::spawn([] { return counted(6); }).get().value(), 6);
  });
}

TEST_P(Task, GetRethrowsTheException) {
  run([] {
    expect_throw_message<std::runtime_error>([] { coir::spawn([] { throw std::runtime_error("failed"); }).get(); },
                                             "failed");
    EXPECT_THROW(coir::spawn([]() -> int { throw 5; }).get(), int);
  });
}

TEST_P(Task, TheExceptionLivesAsLongAsSomebodyHoldsIt) {
  struct failure : std::runtime_error {
    using std::runtime_error::runtime_error;
    counted c;
  };
  run([] {
    try {
      coir::spawn([] { throw failure("x"); }).get();
    } catch (const failure& f) {
      EXPECT_EQ(counted::live(), 1);
      EXPECT_STREQ(f.what(), "x");
    }
    EXPECT_EQ(counted::live(), 0);
  });
}

TEST_P(Task, GetTwiceIsALogicError) {
  run([] {
    coir::task<int> t = coir::spawn([] { return 1; });
    EXPECT_EQ(t.get(), 1);
    expect_throw_message<std::logic_error>([&] { t.get(); }, "empty task");
    EXPECT_FALSE(t.valid());
  });
}

TEST_P(Task, GetAfterAFailureIsALogicErrorToo) {
  run([] {
    coir::task<int> t = coir::spawn([]() -> int { throw 1; });
    EXPECT_THROW(t.get(), int);
    expect_throw_message<std::logic_error>([&] { t.get(); }, "empty task");
  });
}

TEST_P(Task, EveryUseOfAnEmptyOneIsALogicError) {
  coir::task<void> empty;
  coir::task<void> moved_from = run([] { return coir::spawn([] {}); });
  const coir::task<void> taken = std::move(moved_from);
  for (coir::task<void>* t : {&empty, &moved_from}) {
    EXPECT_FALSE(t->valid());
    EXPECT_FALSE(static_cast<bool>(*t));
    EXPECT_THROW(t->get(), std::logic_error);
    EXPECT_THROW(t->wait(), std::logic_error);
    EXPECT_THROW(t->wait_for(1ms), std::logic_error);
    EXPECT_THROW(t->wait_until(clock::now()), std::logic_error);
    EXPECT_THROW(static_cast<void>(t->ready()), std::logic_error);
    EXPECT_THROW(static_cast<void>(t->status()), std::logic_error);
    EXPECT_THROW(t->request_stop(), std::logic_error);
    EXPECT_THROW(t->detach(), std::logic_error);
    EXPECT_EQ(t->id(), coir::fiber_id{});
  }
}

TEST_P(Task, WaitLeavesTheResultToGet) {
  run([] {
    coir::task<int> t = coir::spawn([] {
      coir::yield();
      return 7;
    });
    t.wait();
    t.wait();
    EXPECT_TRUE(t.ready());
    EXPECT_TRUE(t.wait_for(0ms));
    EXPECT_TRUE(t.wait_until(clock::time_point{}));
    EXPECT_EQ(t.get(), 7);
  });
}

TEST_P(Task, OutlivesItsRuntime) {
  coir::task<std::string> t = run([] { return coir::spawn([] { return std::string("still there"); }); });
  EXPECT_TRUE(t.ready());
  EXPECT_EQ(t.status(), task_status::finished);
  EXPECT_EQ(t.get(), "still there");
}

TEST_P(Task, IsJoinedByAPlainThread) {
  coir::runtime rt{opts()};
  for (int i = 0; i < coir_test::scaled(500); ++i) {
    coir::task<int> t = rt.spawn([i] {
      if (i % 2 == 0) coir::yield();
      return i;
    });
    ASSERT_EQ(t.get(), i);
  }
}

TEST_P(Task, MayHaveSeveralWhoWait) {
  run([] {
    gate door;
    const coir::task<void> t = coir::spawn([&] { door.pass(); });
    std::atomic<int> joined{0};
    std::vector<coir::task<void>> waiters;
    for (int i = 0; i < 10; ++i) {
      waiters.push_back(coir::spawn([&] {
        t.wait();
        EXPECT_TRUE(t.ready());
        ++joined;
      }));
    }
    until_blocked(waiters);
    EXPECT_EQ(joined, 0);
    door.open();
    for (coir::task<void>& w : waiters) w.get();
    EXPECT_EQ(joined, 10);
  });
}

TEST_P(Task, AChainOfJoinsIsAsDeepAsOneLikes) {
  struct chain {
    static int link(int n) {
      return n == 0 ? 0 : coir::spawn([n] { return link(n - 1); }).get() + 1;
    }
  };
  const int depth = coir_test::thread_sanitizer ? 500 : 5000;
  EXPECT_EQ(run([&] { return chain::link(depth); }), depth);
}

// ---- timed waits ---------------------------------------------------------------------------------------------------

TEST_P(Task, WaitForReturnsFalseNotBeforeItsTime) {
  run([] {
    gate door;
    coir::task<void> t = coir::spawn([&] { door.pass(); });
    for (const auto d : {1ms, 3ms}) {
      const auto begin = clock::now();
      EXPECT_FALSE(t.wait_for(d));
      EXPECT_GE(clock::now() - begin, d);
      EXPECT_FALSE(t.wait_until(clock::now() + d));
      EXPECT_GE(clock::now() - begin, 2 * d);
    }
    door.open();
    t.get();
  });
}

TEST_P(Task, WaitForReturnsTrueWhenTheFiberEnds) {
  run([] {
    gate door;
    coir::task<int> t = coir::spawn([&] {
      door.pass();
      return 3;
    });
    coir::task<bool> waiter = coir::spawn([&] { return t.wait_for(std::chrono::hours::max()); });
    until_blocked(waiter);
    door.open();
    EXPECT_TRUE(waiter.get());
    EXPECT_EQ(t.get(), 3);
  });
}

TEST_P(Task, WaitForNoTimeOrLessAsksOnly) {
  run([] {
    gate door;
    coir::task<void> t = coir::spawn([&] { door.pass(); });
    EXPECT_FALSE(t.wait_for(0s));
    EXPECT_FALSE(t.wait_for(-1s));
    EXPECT_FALSE(t.wait_for(std::chrono::hours::min()));
    EXPECT_FALSE(t.wait_until(clock::time_point::min()));
    EXPECT_FALSE(t.wait_until(std::chrono::system_clock::time_point{}));
    door.open();
    t.wait();
    EXPECT_TRUE(t.wait_for(-1s));
    EXPECT_TRUE(t.wait_until(clock::time_point::min()));
  });
}

TEST_P(Task, WaitUntilTakesAnyClock) {
  run([] {
    gate door;
    coir::task<void> t = coir::spawn([&] { door.pass(); });
    const auto begin = std::chrono::system_clock::now();
    EXPECT_FALSE(t.wait_until(begin + 2ms));
    EXPECT_GE(std::chrono::system_clock::now(), begin + 2ms);
    door.open();
    EXPECT_TRUE(t.wait_until(std::chrono::system_clock::now() + std::chrono::hours(1)));
  });
}

TEST_P(Task, ATimedWaitOfAPlainThreadEndsBothWays) {
  coir::runtime rt{opts()};
  gate door;
  coir::task<int> t = rt.spawn([&] {
    door.pass();
    return 4;
  });
  const auto begin = clock::now();
  EXPECT_FALSE(t.wait_for(3ms));
  EXPECT_GE(clock::now() - begin, 3ms);
  door.open();
  EXPECT_TRUE(t.wait_for(std::chrono::hours(1)));
  EXPECT_EQ(t.get(), 4);
}

TEST_P(Task, ATimeoutThatRacesTheEndIsEitherNeverBoth) {
  run([] {
    for (int i = 0; i < coir_test::scaled(2000); ++i) {
      coir::task<int> t = coir::spawn([i] {
        coir::sleep_for(std::chrono::microseconds(i % 20));
        return i;
      });
      const bool in_time = t.wait_for(std::chrono::microseconds(i % 20));
      EXPECT_TRUE(!in_time || t.ready());
      ASSERT_EQ(t.get(), i);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, Task, coir_test::processors, coir_test::processors_name);

}  // namespace
