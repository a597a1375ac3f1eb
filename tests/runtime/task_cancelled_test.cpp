// Who is told of a cancellation, and how: `cancelled` is thrown in the fiber that was cancelled, and is no
// std::exception; others hear of it by an ordinary error, task_cancelled.
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>

#include <coir/async.hpp>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using coir_test::until_blocked;
using runtime_test::counted;
using runtime_test::gate;
using namespace std::chrono_literals;

class TaskCancelled : public runtime_test::leak_checked {};

TEST_P(TaskCancelled, ALoopThatSwallowsEveryStdExceptionEndsAllTheSame) {
  run([] {
    gate never;
    int swallowed = 0;
    {
      const coir::task<void> loop = coir::spawn([&, c = counted()] {
        for (;;) {
          try {
            never.pass();
          } catch (const std::exception&) {
            ++swallowed;
          }
        }
      });
      until_blocked(loop);
    }  // which requests the stop, and joins
    EXPECT_EQ(swallowed, 0);
  });
}

TEST_P(TaskCancelled, WhoJoinsAnothersCancelledTaskHearsOfItAndGoesOn) {
  run([] {
    gate never, door;
    std::atomic<bool> stopped{false};
    coir::task<void> victim = coir::spawn([&] { never.pass(); });
    coir::task<int> joiner = coir::spawn([&] {
      victim.wait();
      coir_test::until([&] { return stopped.load(); });  // get() changes the handle, which request_stop() reads
      try {
        victim.get();
      } catch (const std::exception& e) {
        EXPECT_STREQ(e.what(), "task cancelled");
      }
      door.pass();  // it is not cancelled itself, and may block
      return 7;
    });
    until_blocked(joiner);
    victim.request_stop();
    stopped = true;
    until_blocked(joiner);
    door.open();
    EXPECT_EQ(joiner.get(), 7);
  });
}

TEST_P(TaskCancelled, IsTheFailureOfATaskThatDoesNotCatchIt) {
  run([] {
    gate never;
    std::atomic<bool> stopped{false};
    coir::task<void> victim = coir::spawn([&] { never.pass(); });
    coir::task<void> joiner = coir::spawn([&] {
      victim.wait();
      coir_test::until([&] { return stopped.load(); });
      victim.get();
    });
    until_blocked(joiner);
    victim.request_stop();
    stopped = true;
    EXPECT_THROW(joiner.get(), coir::task_cancelled);
  });
}

TEST_P(TaskCancelled, IsWhatAThreadIsTold) {
  coir::runtime rt{opts()};
  gate never;
  coir::task<void> victim = rt.spawn([&] { never.pass(); });
  until_blocked(victim);
  victim.request_stop();
  EXPECT_THROW(victim.get(), coir::task_cancelled);
}

TEST_P(TaskCancelled, IsWhatRunThrowsIfMainWasCancelled) {
  EXPECT_THROW(run([] {
                 coir::runtime::current().cancel();
                 coir::sleep_for(1h);
               }),
               coir::task_cancelled);
  EXPECT_THROW(run([] { throw coir::cancelled(); }), coir::task_cancelled);
}

TEST_P(TaskCancelled, ATaskThatWasCancelledAndFailedOtherwiseTellsOfItsFailure) {
  run([] {
    gate never;
    coir::task<void> t = coir::spawn([&] {
      try {
        never.pass();
      } catch (const coir::cancelled&) {
        throw std::out_of_range("while it unwound");
      }
    });
    until_blocked(t);
    t.request_stop();
    EXPECT_THROW(t.get(), std::out_of_range);
  });
}

TEST_P(TaskCancelled, InCleanUpCodeOfACancelledFiberToo) {
  run([] {
    gate never;
    bool told = false;
    coir::task<void> t = coir::spawn([&] {
      coir::task<void> child = coir::spawn([&] { never.pass(); });
      try {
        never.pass();
      } catch (const coir::cancelled&) {
        const coir::uncancellable guard;
        child.request_stop();
        try {
          child.get();
        } catch (const coir::task_cancelled&) {
          told = true;
        }
        throw;
      }
    });
    until_blocked(t);
    t.request_stop();
    EXPECT_THROW(t.get(), coir::task_cancelled);
    EXPECT_TRUE(told);
  });
}

TEST_P(TaskCancelled, OneThatIsCancelledTooIsToldOfItsOwn) {
  run([] {
    gate never;
    coir::task<void> t = coir::spawn([&] {
      coir::task<void> child = coir::spawn([&] { never.pass(); });
      try {
        never.pass();
      } catch (const coir::cancelled&) {
        child.request_stop();
        while (!child.ready()) coir::yield();
        EXPECT_THROW(child.get(), coir::cancelled);
        throw;
      }
    });
    until_blocked(t);
    t.request_stop();
    EXPECT_THROW(t.get(), coir::task_cancelled);
  });
}

// Their children end first, and their joins are over by that.
TEST_P(TaskCancelled, FibersThatJoinOthersEndInSilenceWithTheirRuntime) {
  for (int i = 0; i < coir_test::scaled(200); ++i) {
    coir::runtime rt{opts()};
    gate never;
    for (int n = 0; n < 5; ++n)
      rt.go([&, c = counted()] { coir::spawn([&] { coir::spawn([&] { never.pass(); }).get(); }).get(); });
    if (i % 2 == 0) coir_test::until([&] { return never.awaited(); });
    rt.cancel();
    rt.wait();
  }
}

TEST_P(TaskCancelled, FibersThatJoinOthersEndInSilenceWhenADeadlockIsUnwound) {
  gate never;
  EXPECT_THROW(
      run([&] {
        for (int n = 0; n < 5; ++n)
          coir::go([&, c = counted()] { coir::spawn([&] { coir::spawn([&] { never.pass(); }).get(); }).get(); });
      }),
      coir::deadlock);
  EXPECT_THROW(run([&] { coir::spawn([&] { never.pass(); }).get(); }), coir::deadlock);
}

TEST_P(TaskCancelled, IsWhatACoroutineIsTold) {
  run([] {
    gate never;
    coir::task<void> victim = coir::spawn([&] { never.pass(); });
    victim.request_stop();
    coir::task<int> joiner = coir::spawn([&]() -> coir::async<int> {
      int told = 0;
      try {
        co_await victim;
      } catch (const coir::task_cancelled&) {
        told = 1;
      }
      co_return told;
    });
    EXPECT_EQ(joiner.get(), 1);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, TaskCancelled, coir_test::processors, coir_test::processors_name);

}  // namespace
