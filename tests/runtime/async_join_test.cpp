// Coroutines that wait for the end of a task: co_await task, async_wait, async_wait_for, async_wait_until.
#include <coir/async.hpp>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <vector>

#include "async_gate.hpp"
#include "counted.hpp"

namespace {

using namespace std::chrono_literals;
using coir::async;
using coir_test::scaled;
using coir_test::until_blocked;

class AsyncJoin : public runtime_test::leak_checked {};

TEST_P(AsyncJoin, AWaitLeavesTheTaskAsItIs) {
  run([] {
    runtime_test::async_gate door;
    coir::task<int> fiber = coir::spawn([&] {
      door.pass();
      return 7;
    });
    coir::task<void> waits = coir::spawn([&]() -> async<void> { co_await fiber.async_wait(); });
    until_blocked(waits);
    door.open();
    waits.get();
    EXPECT_TRUE(fiber.ready());
    EXPECT_EQ(fiber.get(), 7);
  });
}

TEST_P(AsyncJoin, ATimeEndsAWait) {
  run([] {
    runtime_test::async_gate door;
    coir::task<int> fiber = coir::spawn([&] {
      door.pass();
      return 7;
    });
    coir::spawn([&]() -> async<void> {
      const bool ended = co_await fiber.async_wait_for(2ms);
      EXPECT_FALSE(ended);
      const bool past = co_await fiber.async_wait_until(std::chrono::steady_clock::now() - 1s);
      EXPECT_FALSE(past);
    }).get();
    coir::task<bool> patient = coir::spawn([&]() -> async<bool> { co_return co_await fiber.async_wait_for(1h); });
    until_blocked(patient);
    door.open();
    EXPECT_TRUE(patient.get());
    coir::spawn([&]() -> async<void> {
      const bool ended = co_await fiber.async_wait_for(0s);
      EXPECT_TRUE(ended);
      const int result = co_await fiber;
      EXPECT_EQ(result, 7);
    }).get();
    EXPECT_FALSE(fiber.valid());
  });
}

TEST_P(AsyncJoin, OneThatIsCancelledLeavesTheTaskToOthers) {
  run([] {
    runtime_test::async_gate door;
    coir::task<int> fiber = coir::spawn([&] {
      door.pass();
      return 7;
    });
    for (const bool with_a_time : {false, true}) {
      coir::task<void> victim = coir::spawn([&, with_a_time]() -> async<void> {
        if (with_a_time) {
          const bool ended = co_await fiber.async_wait_for(1h);
          EXPECT_TRUE(ended);
        } else {
          co_await fiber.async_wait();
        }
      });
      until_blocked(victim);
      victim.request_stop();
      EXPECT_THROW(victim.get(), coir::task_cancelled);
    }
    door.open();
    EXPECT_EQ(fiber.get(), 7);
  });
}

TEST_P(AsyncJoin, AnEmptyTaskIsRefused) {
  run([] {
    const coir::task<int> none;
    EXPECT_THROW((void)none.async_wait(), std::logic_error);
    EXPECT_THROW((void)none.async_wait_for(1ms), std::logic_error);
  });
}

// The end of the task, the deadline and a cancellation come at the same moments.
TEST_P(AsyncJoin, EndsOnceWhateverComesFirst) {
  run([] {
    for (int i = 0; i < scaled(4'000); ++i) {
      coir::task<int> t = coir::spawn([i] {
        for (int k = i % 6; k > 0; --k) coir::yield();
        return i;
      });
      coir::task<bool> joiner = coir::spawn(
          [&t, i]() -> async<bool> { co_return co_await t.async_wait_for(std::chrono::microseconds(i % 20)); });
      if (i % 3 == 0) {
        for (int k = i % 4; k > 0; --k) coir::yield();
        joiner.request_stop();
      }
      try {
        const bool ended = joiner.get();
        EXPECT_TRUE(!ended || t.ready());
      } catch (const coir::task_cancelled&) {
        EXPECT_EQ(i % 3, 0);
      }
      EXPECT_EQ(t.get(), i);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, AsyncJoin, coir_test::processors, coir_test::processors_name);

}  // namespace
