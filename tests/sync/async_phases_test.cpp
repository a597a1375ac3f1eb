// Coroutines that wait until others are done: wait_group, latch, barrier, call_once.
#include <coir/async.hpp>
#include <coir/barrier.hpp>
#include <coir/chan.hpp>
#include <coir/latch.hpp>
#include <coir/once.hpp>
#include <coir/wait_group.hpp>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "actor.hpp"
#include "coir_test.hpp"

namespace {

using coir::async;
using coir_test::scaled;
using coir_test::until_blocked;
using sync_test::actor;
using sync_test::kind;

class AsyncWaitGroup : public coir_test::with_processors {};
class AsyncLatch : public coir_test::with_processors {};
class AsyncBarrier : public coir_test::with_processors {};
class AsyncOnce : public coir_test::with_processors {};

TEST_P(AsyncWaitGroup, WakesAllWhoWaitWhateverTheyAre) {
  run([] {
    coir::wait_group group;
    coir::spawn([&]() -> async<void> { co_await group.async_wait(); }).get();  // nothing to wait for
    group.add(2);
    int result = 0;
    std::vector<coir::task<void>> coroutines;
    for (int i = 0; i < 3; ++i) {
      coroutines.push_back(coir::spawn([&]() -> async<void> {
        co_await group.async_wait();
        EXPECT_EQ(result, 7);
      }));
      until_blocked(coroutines.back());
    }
    actor fiber(kind::fiber, [&] { group.wait(); });
    actor thread(kind::thread, [&] { group.wait(); });
    fiber.until_blocked();
    thread.until_blocked();
    group.done();
    for (const auto& t : coroutines) EXPECT_FALSE(t.ready());
    result = 7;
    group.done();
    for (auto& t : coroutines) t.get();
    fiber.join();
    thread.join();
  });
}

TEST_P(AsyncWaitGroup, OneThatIsCancelledIsToldAndTheOthersWaitOn) {
  run([] {
    coir::wait_group group;
    group.add(1);
    coir::task<void> victim = coir::spawn([&]() -> async<void> { co_await group.async_wait(); });
    coir::task<void> other = coir::spawn([&]() -> async<void> { co_await group.async_wait(); });
    until_blocked(victim);
    until_blocked(other);
    victim.request_stop();
    EXPECT_THROW(victim.get(), coir::task_cancelled);
    EXPECT_FALSE(other.ready());
    group.done();
    other.get();
  });
}

// The group ends with the wait, whoever waited; a canceller and the last done() race for the coroutine.
TEST_P(AsyncWaitGroup, MayBeDestroyedAsSoonAsTheWaitIsOver) {
  run([] {
    for (int i = 0; i < scaled(3'000); ++i) {
      auto group = std::make_unique<coir::wait_group>();
      coir::wait_group& in = *group;
      in.add(2);
      coir::task<bool> t = coir::spawn([&in]() -> async<bool> {
        try {
          co_await in.async_wait();
          co_return true;
        } catch (const coir::cancelled&) {
        }
        co_return false;
      });
      coir::task<void> first = coir::spawn([&in] { in.done(); });
      coir::task<void> second = coir::spawn([&in, i] {
        for (int k = i % 4; k > 0; --k) coir::yield();
        in.done();
      });
      if (i % 3 == 0) {
        for (int k = i % 5; k > 0; --k) coir::yield();
        t.request_stop();
      }
      const bool waited = t.get();
      if (waited && i % 3 != 0) group.reset();
      first.get();
      second.get();
      if (group) {
        EXPECT_NO_THROW(group->wait());
      }
    }
  });
}

TEST_P(AsyncWaitGroup, ADeadlockSaysWhatItWaitsOn) {
  coir_test::expect_throw_message<coir::deadlock>(
      [&] {
        coir::wait_group group;
        group.add(1);
        run([&] { coir::go([&]() -> async<void> { co_await group.async_wait(); }); });
      },
      ": wait_group 0x");
}

INSTANTIATE_TEST_SUITE_P(Processors, AsyncWaitGroup, coir_test::processors, coir_test::processors_name);

TEST_P(AsyncLatch, CoroutinesArriveAndWait) {
  run([] {
    coir::latch l(5);
    std::atomic<int> arrived{0};
    std::vector<coir::task<void>> all;
    for (int i = 0; i < 2; ++i)
      all.push_back(coir::spawn([&, i]() -> async<void> {
        ++arrived;
        co_await l.async_arrive_and_wait(i == 0 ? 2 : 1);
        EXPECT_EQ(arrived, 4);
      }));
    all.push_back(coir::spawn([&]() -> async<void> {
      co_await l.async_wait();
      EXPECT_EQ(arrived, 4);
    }));
    until_blocked(all);
    actor fiber(kind::fiber, [&] {
      ++arrived;
      l.arrive_and_wait();
      EXPECT_EQ(arrived, 4);
    });
    fiber.until_blocked();
    ++arrived;
    l.count_down();
    for (auto& t : all) t.get();
    fiber.join();
    EXPECT_TRUE(l.try_wait());
  });
}

TEST_P(AsyncLatch, AnArrivalCountsWhenItIsAwaitedAndStandsIfItIsCancelled) {
  run([] {
    coir::latch l(2);
    EXPECT_THROW((void)l.async_arrive_and_wait(-1), std::invalid_argument);
    coir::task<void> t = coir::spawn([&]() -> async<void> {
      auto arrival = l.async_arrive_and_wait();
      EXPECT_FALSE(l.try_wait());
      co_await arrival;
    });
    until_blocked(t);
    t.request_stop();
    EXPECT_THROW(t.get(), coir::task_cancelled);
    l.count_down();
    EXPECT_TRUE(l.try_wait());
    coir::spawn([&]() -> async<void> {
      bool refused = false;
      try {
        co_await l.async_arrive_and_wait();
      } catch (const std::logic_error&) {
        refused = true;
      }
      EXPECT_TRUE(refused);
    }).get();
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, AsyncLatch, coir_test::processors, coir_test::processors_name);

TEST_P(AsyncBarrier, PhasesEndForAllAtOnce) {
  run([] {
    constexpr int each = 3;
    const int phases = scaled(2'000);
    std::atomic<int> arrivals{0};
    int completions = 0;  // written by the completion, between phases
    const auto complete = [&]() noexcept {
      ++completions;
      EXPECT_EQ(arrivals, 2 * each * completions);
    };
    coir::barrier meet(2 * each, complete);
    std::vector<coir::task<void>> all;
    for (int i = 0; i < each; ++i) {
      all.push_back(coir::spawn([&, i]() -> async<void> {
        for (int k = 0; k < phases; ++k) {
          ++arrivals;
          if (i == 0) {
            auto token = meet.arrive();
            co_await meet.async_wait(std::move(token));
          } else {
            co_await meet.async_arrive_and_wait();
          }
          EXPECT_GE(completions, k + 1);
        }
      }));
      all.push_back(coir::spawn([&] {
        for (int k = 0; k < phases; ++k) {
          ++arrivals;
          meet.arrive_and_wait();
        }
      }));
    }
    for (auto& t : all) t.get();
    EXPECT_EQ(completions, phases);
  });
}

TEST_P(AsyncBarrier, AnArrivalStandsThoughItsWaitIsCancelled) {
  run([] {
    coir::barrier meet(2);
    coir::task<void> t = coir::spawn([&]() -> async<void> { co_await meet.async_arrive_and_wait(); });
    until_blocked(t);
    t.request_stop();
    EXPECT_THROW(t.get(), coir::task_cancelled);
    meet.arrive_and_wait();
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, AsyncBarrier, coir_test::processors, coir_test::processors_name);

TEST_P(AsyncOnce, ItIsDoneOnceByWhoeverComesFirst) {
  run([] {
    for (int i = 0; i < scaled(500); ++i) {
      coir::once flag;
      int done = 0;
      std::vector<coir::task<void>> all;
      for (int k = 0; k < 3; ++k) {
        all.push_back(coir::spawn([&]() -> async<void> {
          co_await coir::async_call_once(flag, [&] {
            coir::yield();
            ++done;
          });
          EXPECT_EQ(done, 1);
        }));
        all.push_back(coir::spawn([&] {
          coir::call_once(flag, [&] {
            coir::yield();
            ++done;
          });
          EXPECT_EQ(done, 1);
        }));
      }
      for (auto& t : all) t.get();
    }
  });
}

TEST_P(AsyncOnce, WhenItFailsOneWhoWaitsDoesItInItsPlace) {
  run([] {
    coir::once flag;
    const auto fail = coir::make_chan<void>();
    int done = 0;
    coir::task<void> first = coir::spawn([&, fail]() -> async<void> {
      const auto f = [fail]() -> async<void> {
        co_await fail.async_recv();
        throw std::runtime_error("the first fails");
      };
      co_await coir::async_call_once(flag, f);
    });
    until_blocked(first);
    coir::task<void> second =
        coir::spawn([&]() -> async<void> { co_await coir::async_call_once(flag, [&] { ++done; }); });
    until_blocked(second);
    actor third(kind::fiber, [&] { coir::call_once(flag, [&] { ++done; }); });
    third.until_blocked();
    fail.send();
    EXPECT_THROW(first.get(), std::runtime_error);
    second.get();
    third.join();
    EXPECT_EQ(done, 1);
  });
}

TEST_P(AsyncOnce, OneThatWaitsCanBeCancelled) {
  run([] {
    coir::once flag;
    const auto go_on = coir::make_chan<void>();
    coir::task<void> doer = coir::spawn([&] { coir::call_once(flag, [&] { go_on.recv(); }); });
    until_blocked(doer);
    coir::task<void> victim = coir::spawn([&]() -> async<void> { co_await coir::async_call_once(flag, [] {}); });
    until_blocked(victim);
    victim.request_stop();
    EXPECT_THROW(victim.get(), coir::task_cancelled);
    go_on.send();
    doer.get();
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, AsyncOnce, coir_test::processors, coir_test::processors_name);

}  // namespace
