// task::request_stop: before the start, while the fiber runs, while it is blocked, when it has finished; racing grants
// and timeouts.
#include <atomic>
#include <chrono>
#include <vector>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using coir_test::until;
using coir_test::until_blocked;
using runtime_test::counted;
using runtime_test::gate;
using namespace std::chrono_literals;

class RequestStop : public runtime_test::leak_checked {};

TEST_P(RequestStop, WakesABlockedFiberWithCancelled) {
  run([] {
    gate never;
    coir::task<void> t = coir::spawn([&, c = counted()] { never.pass(); });
    until_blocked(t);
    t.request_stop();
    EXPECT_THROW(t.get(), coir::task_cancelled);
    EXPECT_FALSE(never.awaited());  // and it has left the queue
  });
}

TEST_P(RequestStop, BeforeTheStartLetsTheFunctionRunAndItsFirstBlockingCallThrow) {
  run([] {
    gate never;
    bool ran = false;
    coir::task<void> t = coir::spawn([&] {
      ran = true;
      never.pass();
    });
    t.request_stop();
    EXPECT_THROW(t.get(), coir::task_cancelled);
    EXPECT_TRUE(ran);
  });
}

TEST_P(RequestStop, WhileItRunsIsSeenAtTheNextBlockingCall) {
  coir::runtime rt{opts()};
  gate never;
  std::atomic<bool> started{false}, go_on{false}, blocked{false};
  coir::task<void> t = rt.spawn([&] {
    started = true;
    while (!go_on) coir::yield();  // yield does not look
    blocked = true;
    never.pass();
  });
  until([&] { return started.load(); });
  t.request_stop();
  go_on = true;
  EXPECT_THROW(t.get(), coir::task_cancelled);
  EXPECT_TRUE(blocked);
}

TEST_P(RequestStop, IsNotSeenByCallsThatWouldNotBlock) {
  run([] {
    gate stopped;
    gate open;
    open.open();
    coir::task<int> done = coir::spawn([] { return 1; });
    done.wait();
    coir::task<int> t = coir::spawn([&] {
      {
        const coir::uncancellable guard;
        stopped.pass();
      }
      coir::yield();
      open.pass();
      coir::sleep_for(0s);
      coir::sleep_for(-1s);
      done.wait();
      EXPECT_TRUE(done.wait_for(1h));
      return done.get();
    });
    until_blocked(t);
    t.request_stop();
    stopped.open();
    EXPECT_EQ(t.get(), 1);
  });
}

TEST_P(RequestStop, IsSeenByEveryBlockingCallFromThenOn) {
  run([] {
    gate never;
    int thrown = 0;
    coir::task<void> other = coir::spawn([&] { never.pass(); });
    until_blocked(other);
    coir::task<void> t = coir::spawn([&] {
      const auto throws = [&](auto&& call) {
        try {
          call();
        } catch (const coir::cancelled&) {
          ++thrown;
        }
      };
      throws([&] { never.pass(); });
      throws([&] { never.pass(); });
      throws([&] { coir::sleep_for(1h); });
      throws([&] { other.wait(); });
      throws([&] { other.wait_for(1h); });
      throws([&] { other.get(); });
      EXPECT_TRUE(other.valid());  // a join that was cancelled leaves the task as it was
    });
    until_blocked(t);
    t.request_stop();
    t.get();
    EXPECT_EQ(thrown, 6);
  });
}

TEST_P(RequestStop, OnAFinishedTaskDoesNothing) {
  run([] {
    coir::task<int> t = coir::spawn([] { return 1; });
    t.wait();
    t.request_stop();
    EXPECT_EQ(t.get(), 1);
  });
}

TEST_P(RequestStop, DoesNotReachTheNextFiberOnTheSameStack) {
  run([] {
    for (int i = 0; i < coir_test::scaled(3000); ++i) {
      coir::task<void> first = coir::spawn([] {});
      if (i % 2 == 0) coir::yield();
      first.request_stop();
      coir::spawn([] { coir::sleep_for(1us); }).get();  // must not throw
      first.wait();
    }
  });
}

TEST_P(RequestStop, AGrantThatCameFirstIsKept) {
  run([] {
    for (int i = 0; i < coir_test::scaled(500); ++i) {
      gate door;
      bool granted = false, cancelled_later = false;
      coir::task<void> t = coir::spawn([&] {
        door.pass();
        granted = true;
        try {
          coir::sleep_for(1h);
        } catch (const coir::cancelled&) {
          cancelled_later = true;
        }
      });
      until_blocked(t);
      door.open();
      t.request_stop();
      t.get();
      ASSERT_TRUE(granted);
      ASSERT_TRUE(cancelled_later);
    }
  });
}

TEST_P(RequestStop, RacesTheGrantAndTheTimeoutAndNothingIsLost) {
  run([] {
    for (int i = 0; i < coir_test::scaled(3000); ++i) {
      gate door;
      int outcomes = 0;
      coir::task<void> sleeper = coir::spawn([&] {
        try {
          static_cast<void>(door.pass_for(std::chrono::microseconds(i % 5)));
          ++outcomes;
        } catch (const coir::cancelled&) {
          ++outcomes;
        }
      });
      coir::task<void> opener = coir::spawn([&] { door.open(); });
      if (i % 3 == 0) coir::yield();
      sleeper.request_stop();
      sleeper.get();
      opener.get();
      ASSERT_EQ(outcomes, 1);
      ASSERT_FALSE(door.awaited());
    }
  });
}

TEST_P(RequestStop, FromManyAtOnceWakesOnce) {
  run([] {
    for (int i = 0; i < coir_test::scaled(200); ++i) {
      gate never;
      int thrown = 0;
      coir::task<void> t = coir::spawn([&] {
        try {
          never.pass();
        } catch (const coir::cancelled&) {
          ++thrown;
        }
      });
      if (i % 2 == 0) until_blocked(t);
      std::vector<coir::task<void>> stoppers;
      for (int k = 0; k < 10; ++k) stoppers.push_back(coir::spawn([&] { t.request_stop(); }));
      for (coir::task<void>& s : stoppers) s.get();
      t.get();
      ASSERT_EQ(thrown, 1);
    }
  });
}

TEST_P(RequestStop, FromAPlainThread) {
  coir::runtime rt{opts()};
  gate never;
  for (int i = 0; i < coir_test::scaled(500); ++i) {
    coir::task<void> t = rt.spawn([&] { never.pass(); });
    if (i % 2 == 0) until_blocked(t);
    t.request_stop();
    ASSERT_THROW(t.get(), coir::task_cancelled);
  }
}

TEST_P(RequestStop, OfItselfIsSeenAtItsNextBlockingCall) {
  run([] {
    gate handed, never;
    coir::task<void> t;
    t = coir::spawn([&] {
      handed.pass();
      t.request_stop();
      coir::yield();
      EXPECT_THROW(never.pass(), coir::cancelled);
    });
    handed.open();
    t.get();
  });
}

TEST_P(RequestStop, AFiberThatSwallowsItReturnsAResult) {
  run([] {
    gate never;
    coir::task<int> t = coir::spawn([&] {
      try {
        never.pass();
      } catch (const coir::cancelled&) {
      }
      return 5;
    });
    until_blocked(t);
    t.request_stop();
    EXPECT_EQ(t.get(), 5);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, RequestStop, coir_test::processors, coir_test::processors_name);

}  // namespace
