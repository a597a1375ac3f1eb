// coir::barrier: phases, the completion function, dropping out.
#include <coir/barrier.hpp>

#include <chrono>
#include <stdexcept>
#include <stop_token>
#include <vector>

#include "actor.hpp"

namespace {

using coir_test::scaled;
using sync_test::actor;
using sync_test::both_kinds;
using sync_test::kind;

class barrier_test : public coir_test::with_processors {};

TEST_P(barrier_test, NobodyPassesBeforeAllHaveArrivedPhaseAfterPhase) {
  run([] {
    for (const kind k : both_kinds) {
      const int rounds = k == kind::fiber ? scaled(5'000) : scaled(500);
      int phases = 0;  // plain, as the next: ThreadSanitizer watches
      int arrived[3] = {};
      bool complete = true;
      coir::barrier barrier(3, [&]() noexcept {
        ++phases;
        for (const int a : arrived) complete = complete && a == phases;
      });
      std::vector<actor> actors;
      for (int& mine : arrived) {
        actors.emplace_back(k, [&] {
          for (int r = 1; r <= rounds; ++r) {
            ++mine;
            barrier.arrive_and_wait();
            EXPECT_EQ(phases, r) << k;
          }
        });
      }
      for (actor& a : actors) a.join();
      EXPECT_TRUE(complete);
      EXPECT_EQ(phases, rounds);
    }
  });
}

TEST_P(barrier_test, ArriveDoesNotBlockAndItsTokenWaitsForItsPhase) {
  run([] {
    for (const kind k : both_kinds) {
      coir::barrier barrier(2);
      auto first = barrier.arrive();
      bool passed = false;
      actor waiter(k, [&] {
        barrier.wait(std::move(first));
        passed = true;
      });
      waiter.until_blocked();
      EXPECT_FALSE(passed);
      auto second = barrier.arrive();
      waiter.join();
      EXPECT_TRUE(passed) << k;
      auto next = barrier.arrive(2);
      barrier.wait(std::move(second));
      barrier.wait(std::move(next));
    }
  });
}

TEST_P(barrier_test, WhoDropsOutIsNotExpectedAnyMore) {
  run([] {
    int phases = 0;
    coir::barrier barrier(3, [&]() noexcept { ++phases; });
    actor leaver(kind::fiber, [&] { barrier.arrive_and_drop(); });
    leaver.join();
    EXPECT_EQ(phases, 0);
    actor other(kind::thread, [&] {
      for (int i = 0; i < 3; ++i) barrier.arrive_and_wait();
    });
    for (int i = 0; i < 3; ++i) barrier.arrive_and_wait();
    other.join();
    EXPECT_EQ(phases, 3);
  });
}

TEST_P(barrier_test, ACancelledArrivalHasArrived) {
  run([] {
    coir::barrier barrier(2);
    actor victim(kind::fiber, [&] { barrier.arrive_and_wait(); });
    victim.until_blocked();
    victim.cancel();
    EXPECT_THROW(victim.join(), coir::task_cancelled);
    barrier.arrive_and_wait();
  });
}

TEST_P(barrier_test, RefusesWhatMakesNoSense) {
  run([] {
    EXPECT_THROW(coir::barrier(-1), std::invalid_argument);
    coir::barrier barrier(2);
    EXPECT_THROW((void)barrier.arrive(0), std::invalid_argument);
    coir_test::expect_throw_message<std::logic_error>([&] { (void)barrier.arrive(3); }, "more arrivals");
    (void)barrier.arrive();
    EXPECT_THROW((void)barrier.arrive(2), std::logic_error);
    barrier.arrive_and_wait();
  });
}

TEST_P(barrier_test, ACompletionMayBlockThoughItsFiberIsCancelled) {
  run([] {
    bool completed = false;
    const auto complete = [&completed]() noexcept {
      coir::sleep_for(std::chrono::milliseconds(1));
      completed = true;
    };
    coir::barrier b(1, complete);
    coir::task<void> t = coir::spawn([&b] {
      const std::stop_token stop = coir::this_fiber::stop_token();
      while (!stop.stop_requested()) coir::yield();
      b.arrive_and_wait();
    });
    t.request_stop();
    t.wait();
    EXPECT_TRUE(completed);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, barrier_test, coir_test::processors, coir_test::processors_name);

}  // namespace
