// async_sleep: coroutines that wait for time to pass.
#include <coir/async.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "async_gate.hpp"
#include "counted.hpp"

namespace {

using namespace std::chrono_literals;
using coir::async;
using coir_test::scaled;
using std::chrono::steady_clock;

class AsyncSleep : public runtime_test::leak_checked {};

TEST_P(AsyncSleep, IsNeverEarly) {
  run([] {
    coir::spawn([]() -> async<void> {
      for (int i = 0; i < 20; ++i) {
        const auto begin = steady_clock::now();
        co_await coir::async_sleep(std::chrono::microseconds(i * 100));
        EXPECT_GE(steady_clock::now() - begin, std::chrono::microseconds(i * 100));
      }
      const auto end = steady_clock::now() + 2ms;
      co_await coir::async_sleep_until(end);
      EXPECT_GE(steady_clock::now(), end);
    }).get();
  });
}

TEST_P(AsyncSleep, ZeroAndThePastReturnAtOnceEvenIfCancelled) {
  run([] {
    runtime_test::async_gate door;
    coir::task<void> t = coir::spawn([&]() -> async<void> {
      door.pass();
      co_await coir::async_sleep(0s);
      co_await coir::async_sleep(-1h);
      co_await coir::async_sleep_until(steady_clock::now() - 1s);
    });
    coir_test::until_blocked(t);
    door.open();
    t.request_stop();
    t.get();
  });
}

// If all have fallen asleep before the first is due; on a loaded machine they need longer for that.
TEST_P(AsyncSleep, WakesInTheOrderOfTheDeadlines) {
  const auto wake = [](std::chrono::milliseconds lead) {
    return coir_test::on_one_processor([lead]() -> std::optional<std::vector<int>> {
      std::mutex lock;  // one processor or not, fibers are no happens-before for each other
      std::vector<int> woken;
      std::vector<coir::task<void>> all;
      const auto begin = steady_clock::now() + lead;
      for (const int i : {3, 1, 4, 2, 0}) {
        all.push_back(coir::spawn([&woken, &lock, begin, i]() -> async<void> {
          co_await coir::async_sleep_until(begin + std::chrono::milliseconds(3 * i));
          const std::lock_guard locked(lock);
          woken.push_back(i);
        }));
      }
      const auto asleep = [&] {
        return std::all_of(all.begin(), all.end(),
                           [](const auto& t) { return t.status() == coir::task_status::blocked; });
      };
      while (!asleep() && steady_clock::now() < begin) coir::yield();
      const bool in_time = asleep() && steady_clock::now() < begin;
      for (auto& t : all) t.get();
      if (!in_time) return std::nullopt;
      return woken;
    });
  };
  std::optional<std::vector<int>> order;
  for (auto lead = std::chrono::milliseconds(5); !order; lead *= 2) order = wake(lead);
  EXPECT_EQ(*order, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST_P(AsyncSleep, EvenTheShortestIsCancelled) {
  run([] {
    coir::task<void> t = coir::spawn([]() -> async<void> {
      for (;;) co_await coir::async_sleep(std::chrono::nanoseconds(1));
    });
    t.request_stop();
    EXPECT_THROW(t.get(), coir::task_cancelled);
  });
}

TEST_P(AsyncSleep, ALongOneCountsAsATimerAndEndsByCancellation) {
  run([] {
    coir::task<void> t = coir::spawn([]() -> async<void> { co_await coir::async_sleep(std::chrono::hours::max()); });
    coir_test::until_blocked(t);
    coir::sleep_for(15ms);  // time enough for a deadlock to be reported
    EXPECT_FALSE(t.ready());
    t.request_stop();
    EXPECT_THROW(t.get(), coir::task_cancelled);
  });
}

TEST_P(AsyncSleep, ACancellationThatRacesTheDeadlineHasOneWinner) {
  run([] {
    int slept = 0, cancelled = 0;
    const int rounds = scaled(5'000);
    for (int i = 0; i < rounds; ++i) {
      coir::task<void> t = coir::spawn([&, i]() -> async<void> {
        try {
          co_await coir::async_sleep(std::chrono::microseconds(1 + i % 60));
          ++slept;
        } catch (const coir::cancelled&) {
          ++cancelled;
        }
      });
      const auto end = steady_clock::now() + std::chrono::microseconds(i % 90);
      while (steady_clock::now() < end) coir::yield();
      t.request_stop();
      t.get();
    }
    EXPECT_EQ(slept + cancelled, rounds);
  });
}

TEST_P(AsyncSleep, ThousandsAtOnce) {
  std::atomic<int> woken{0};
  run([&] {
    for (int i = 0; i < scaled(20'000); ++i) {
      coir::go([&woken, i]() -> async<void> {
        co_await coir::async_sleep(std::chrono::microseconds(i % 5000));
        ++woken;
      });
    }
  });
  EXPECT_EQ(woken, scaled(20'000));
}

TEST_P(AsyncSleep, ASleepThatIsAwaitedAgainIsALogicError) {
  run([] {
    coir::spawn([]() -> async<void> {
      auto nap = coir::async_sleep(std::chrono::microseconds(1));
      co_await nap;
      bool refused = false;
      try {
        co_await nap;
      } catch (const std::logic_error&) {
        refused = true;
      }
      EXPECT_TRUE(refused);
    }).get();
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, AsyncSleep, coir_test::processors, coir_test::processors_name);

}  // namespace
