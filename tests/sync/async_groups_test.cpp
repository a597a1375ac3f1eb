// Coroutines that wait for a task_group, and that share a single_flight.
#include <coir/async.hpp>
#include <coir/chan.hpp>
#include <coir/single_flight.hpp>
#include <coir/task_group.hpp>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "actor.hpp"
#include "coir_test.hpp"

namespace {

using coir::async;
using coir_test::until_blocked;
using sync_test::actor;
using sync_test::kind;

class AsyncTaskGroup : public coir_test::with_processors {};
class AsyncSingleFlight : public coir_test::with_processors {};

TEST_P(AsyncTaskGroup, ACoroutineJoinsTheChildrenAndGetsTheFirstFailure) {
  run([] {
    coir::task_group group;
    const auto go_on = coir::make_chan<void>();
    for (int i = 0; i < 3; ++i)
      group.spawn([go_on, i] {
        go_on.recv();
        if (i == 1) throw std::runtime_error("the second fails");
      });
    coir::task<std::string> t = coir::spawn([&]() -> async<std::string> {
      try {
        co_await group.async_wait();
      } catch (const std::runtime_error& e) {
        co_return e.what();
      }
      co_return "nothing";
    });
    until_blocked(t);
    actor fiber(kind::fiber, [&] { EXPECT_THROW(group.wait(), std::runtime_error); });
    fiber.until_blocked();
    go_on.close();
    EXPECT_EQ(t.get(), "the second fails");
    fiber.join();
  });
}

TEST_P(AsyncTaskGroup, OneThatIsCancelledCancelsTheChildrenAndJoinsThemFirst) {
  run([] {
    coir::task_group group;
    std::atomic<int> ended{0};
    for (int i = 0; i < 3; ++i)
      group.spawn([&] {
        try {
          coir::sleep_for(std::chrono::hours(1));
        } catch (const coir::cancelled&) {
          for (int k = 0; k < 10; ++k) coir::yield();
          ++ended;
          throw;
        }
      });
    int seen = 0;
    coir::task<void> t = coir::spawn([&]() -> async<void> {
      try {
        co_await group.async_wait();
      } catch (const coir::cancelled&) {
        seen = ended;
        throw;
      }
    });
    until_blocked(t);
    t.request_stop();
    EXPECT_THROW(t.get(), coir::task_cancelled);
    EXPECT_EQ(seen, 3);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, AsyncTaskGroup, coir_test::processors, coir_test::processors_name);

TEST_P(AsyncSingleFlight, CoroutinesAndFibersShareOneCall) {
  run([] {
    coir::single_flight<std::string, int> flights;
    const auto go_on = coir::make_chan<void>();
    int calls = 0;
    coir::task<int> leader = coir::spawn([&]() -> async<int> {
      const auto fetch = [&]() -> async<int> {
        co_await go_on.async_recv();
        co_return ++calls;
      };
      co_return co_await flights.async_run("key", fetch);
    });
    until_blocked(leader);
    coir::task<int> coroutine =
        coir::spawn([&]() -> async<int> { co_return co_await flights.async_run("key", [&] { return ++calls; }); });
    until_blocked(coroutine);
    actor fiber(kind::fiber, [&] { EXPECT_EQ(flights.run("key", [&] { return ++calls; }), 1); });
    fiber.until_blocked();
    go_on.send();
    EXPECT_EQ(leader.get(), 1);
    EXPECT_EQ(coroutine.get(), 1);
    fiber.join();
    EXPECT_EQ(calls, 1);
  });
}

TEST_P(AsyncSingleFlight, IfTheLeaderIsCancelledOneWhoWaitsTakesOver) {
  run([] {
    coir::single_flight<int, void> flights;
    int calls = 0;
    coir::task<void> leader = coir::spawn([&]() -> async<void> {
      const auto fetch = []() -> async<void> { co_await coir::async_sleep(std::chrono::hours(1)); };
      co_await flights.async_run(1, fetch);
    });
    until_blocked(leader);
    coir::task<void> heir = coir::spawn([&]() -> async<void> { co_await flights.async_run(1, [&] { ++calls; }); });
    until_blocked(heir);
    leader.request_stop();
    EXPECT_THROW(leader.get(), coir::task_cancelled);
    heir.get();
    EXPECT_EQ(calls, 1);
  });
}

TEST_P(AsyncSingleFlight, AFailureGoesToAll) {
  run([] {
    coir::single_flight<int, int> flights;
    const auto go_on = coir::make_chan<void>();
    const auto fail = [&]() -> int {
      go_on.recv();
      throw std::runtime_error("no");
    };
    std::vector<coir::task<void>> all;
    for (int i = 0; i < 3; ++i) {
      all.push_back(coir::spawn([&]() -> async<void> { (void)co_await flights.async_run(1, fail); }));
      until_blocked(all.back());
    }
    go_on.send();
    for (auto& t : all) EXPECT_THROW(t.get(), std::runtime_error);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, AsyncSingleFlight, coir_test::processors, coir_test::processors_name);

}  // namespace
