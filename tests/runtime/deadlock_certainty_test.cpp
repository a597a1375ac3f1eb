// A deadlock is raised only when it is certain: not while a timer, a foreign thread or another runtime could still wake
// somebody; and then by everybody whom it concerns.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using coir_test::until;
using coir_test::until_blocked;
using runtime_test::gate;
using namespace std::chrono_literals;

class DeadlockCertainty : public runtime_test::leak_checked {};

template <class F>
void expect_deadlock(F&& f) {
  EXPECT_THROW(f(), coir::deadlock);
}

TEST_P(DeadlockCertainty, IsNoneWhileATimerIsPending) {
  gate door;
  run([&] {
    coir::go([&] {
      coir::sleep_for(30ms);
      door.open();
    });
    door.pass();
  });
  run([] {
    gate never;
    EXPECT_FALSE(never.pass_for(30ms));
  });
}

TEST_P(DeadlockCertainty, IsReportedOnceTheLastTimerIsGone) {
  gate never;
  std::atomic<bool> slept{false};
  expect_deadlock([&] {
    run([&] {
      coir::go([&] {
        coir::sleep_for(20ms);
        slept = true;
      });
      never.pass();
    });
  });
  EXPECT_TRUE(slept);
}

TEST_P(DeadlockCertainty, ATimerThatWasCancelledDoesNotHoldItUp) {
  gate never, door;
  expect_deadlock([&] {
    run([&] {
      std::vector<coir::task<bool>> sleepers;
      for (int i = 0; i < 10; ++i) sleepers.push_back(coir::spawn([&] { return door.pass_for(1h); }));
      until_blocked(sleepers);
      door.open();
      for (coir::task<bool>& s : sleepers) EXPECT_TRUE(s.get());
      never.pass();
    });
  });
}

TEST_P(DeadlockCertainty, IsNoneWhileAForeignThreadLives) {
  gate door;
  std::thread foreign([&] {
    until([&] { return door.awaited(); });
    std::this_thread::sleep_for(50ms);  // long enough for several looks at it
    door.open();
  });
  EXPECT_NO_THROW(run([&] { door.pass(); }));
  foreign.join();
}

TEST_P(DeadlockCertainty, IsReportedOnceTheForeignThreadHasEnded) {
  gate never;
  std::atomic<bool> leaving{false};
  std::thread foreign([&] {
    until([&] { return never.awaited(); });
    std::this_thread::sleep_for(30ms);
    leaving = true;
  });
  expect_deadlock([&] { run([&] { never.pass(); }); });
  EXPECT_TRUE(leaving);
  foreign.join();
}

TEST_P(DeadlockCertainty, IsNoneWhileAnotherRuntimeIsBusy) {
  coir::runtime other{opts()};
  gate door;
  other.go([&] {
    const auto end = std::chrono::steady_clock::now() + 40ms;
    while (std::chrono::steady_clock::now() < end) {
    }
    door.open();
  });
  EXPECT_NO_THROW(run([&] { door.pass(); }));
}

TEST_P(DeadlockCertainty, IsNoneWhileAnotherRuntimeHasATimer) {
  coir::runtime other{opts()};
  gate door;
  other.go([&] {
    coir::sleep_for(40ms);
    door.open();
  });
  EXPECT_NO_THROW(run([&] { door.pass(); }));
}

TEST_P(DeadlockCertainty, OfTwoRuntimesIsReportedByBoth) {
  coir::runtime one{opts()}, two{opts()};
  gate never;
  std::thread other([&] { EXPECT_THROW(two.run([&] { never.pass(); }), coir::deadlock); });
  EXPECT_THROW(one.run([&] { never.pass(); }), coir::deadlock);
  EXPECT_THROW(one.wait(), coir::deadlock);
  EXPECT_THROW(two.wait(), coir::deadlock);  // a thread in wait() cannot act either
  other.join();
}

TEST_P(DeadlockCertainty, OfOneRuntimeIsThrownToEachThreadThatRunsInIt) {
  coir::runtime rt{opts()};
  gate never;
  std::atomic<int> deadlocks{0};
  const auto body = [&] {
    try {
      rt.run([&] { never.pass(); });
    } catch (const coir::deadlock&) {
      ++deadlocks;
    }
  };
  std::thread other(body);
  body();
  other.join();
  EXPECT_EQ(deadlocks, 2);
  EXPECT_THROW(rt.wait(), coir::deadlock);
}

// One thread's run watches while the other's ends: the watch must pass to whoever is left.
TEST_P(DeadlockCertainty, IsSeenThoughAnotherThreadsRunHasJustEnded) {
  for (int i = 0; i < coir_test::scaled(100); ++i) {
    coir::runtime rt{opts()};
    gate never, door;
    std::thread other([&] { rt.run([&] { door.pass(); }); });
    std::thread opener([&] {
      until([&] { return door.awaited() && never.awaited(); });
      door.open();
    });
    EXPECT_THROW(rt.run([&] { never.pass(); }), coir::deadlock);
    EXPECT_THROW(rt.wait(), coir::deadlock);
    other.join();
    opener.join();
    if (HasFailure()) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Processors, DeadlockCertainty, coir_test::processors, coir_test::processors_name);

}  // namespace
