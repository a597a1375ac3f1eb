// What cannot be thrown to anybody: an exception that leaves a go fiber, or a detached one, ends the process with a
// report.
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using coir_test::until_blocked;
using runtime_test::counted;
using runtime_test::gate;

class Failure : public runtime_test::leak_checked {
 protected:
  void SetUp() override {
    leak_checked::SetUp();
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

#define EXPECT_TERMINATES(statement, report) EXPECT_EXIT(statement, testing::KilledBySignal(SIGABRT), report)

TEST_P(Failure, AnExceptionThatLeavesAGoFiberNamesItselfTheFiberAndTheSpawnSite) {
  EXPECT_TERMINATES(
      run([] {
        coir::go([] {
          coir::this_fiber::set_name("the culprit");
          coir::yield();
          throw std::runtime_error("out of luck");
        });
      }),
      "std::runtime_error: out of luck.*fiber [0-9]+ \"the culprit\", spawned at .*failure_test.cpp:[0-9]+");
}

TEST_P(Failure, AnExceptionThatIsNoStdExceptionIsNamedByItsType) {
  EXPECT_TERMINATES(run([] { coir::go([] { throw 5; }); }), "an exception left a fiber: int.*failure_test.cpp:[0-9]+");
}

TEST_P(Failure, TheSpawnSiteIsTheLineOfTheCall) {
  const auto expected = "failure_test.cpp:" + std::to_string(__LINE__ + 1);
  EXPECT_TERMINATES(run([] { coir::go([] { throw std::logic_error("x"); }); }), expected);
}

TEST_P(Failure, AGoFromAForeignThreadIsReportedAlike) {
  EXPECT_TERMINATES(
      {
        coir::runtime rt{opts()};
        rt.go([] { throw std::runtime_error("from outside"); });
        rt.wait();
      },
      "std::runtime_error: from outside.*failure_test.cpp:[0-9]+");
}

TEST_P(Failure, CallsTheTerminateHandler) {
  EXPECT_EXIT(
      {
        std::set_terminate([] { std::_Exit(17); });
        run([] { coir::go([] { throw 1; }); });
      },
      testing::ExitedWithCode(17), "an exception left a fiber");
}

TEST_P(Failure, CancelledIsAGoFibersSilentEnd) {
  run([] { coir::go([c = counted()] { throw coir::cancelled(); }); });
}

// ---- detach --------------------------------------------------------------------------------------------------------

TEST_P(Failure, ADetachedTaskGoesOnByItself) {
  std::atomic<int> ended{0};
  run([&] {
    for (int i = 0; i < 50; ++i) {
      coir::task<counted> t = coir::spawn([&ended, i] {
        if (i % 3 == 0) coir::yield();
        ++ended;
        return counted(i);
      });
      if (i % 2 == 0) t.wait();
      t.detach();
      EXPECT_FALSE(t.valid());
      EXPECT_THROW(t.detach(), std::logic_error);
    }
  });
  EXPECT_EQ(ended, 50);
}

TEST_P(Failure, ADetachedTaskIsNeitherStoppedNorJoinedByTheHandle) {
  gate door;
  std::atomic<bool> through{false};
  run([&] {
    {
      coir::task<void> t = coir::spawn([&] {
        door.pass();
        through = true;
      });
      until_blocked(t);
      t.detach();
    }
    EXPECT_FALSE(through);
    door.open();
  });
  EXPECT_TRUE(through);
}

TEST_P(Failure, ATaskThatFailsOnceDetachedEndsTheProcess) {
  EXPECT_TERMINATES(run([] {
                      static gate door;
                      coir::task<void> t = coir::spawn([] {
                        door.pass();
                        throw std::runtime_error("nobody to tell");
                      });
                      until_blocked(t);
                      t.detach();
                      door.open();
                    }),
                    "std::runtime_error: nobody to tell.*fiber [0-9]+, spawned at .*failure_test.cpp:[0-9]+");
}

TEST_P(Failure, DetachingATaskThatHasFailedEndsTheProcess) {
  EXPECT_TERMINATES(run([] {
                      coir::task<void> t = coir::spawn([] { throw std::runtime_error("failed before"); });
                      t.wait();
                      t.detach();
                    }),
                    "std::runtime_error: failed before.*fiber [0-9]+.*spawned at .*failure_test.cpp:[0-9]+");
}

TEST_P(Failure, DetachingATaskThatWasCancelledIsSilent) {
  run([] {
    gate never;
    coir::task<void> t = coir::spawn([&] { never.pass(); });
    until_blocked(t);
    t.request_stop();
    t.wait();
    t.detach();
  });
}

TEST_P(Failure, ADetachedTaskThatIsCancelledEndsSilently) {
  coir::runtime rt{opts()};
  gate never;
  coir::task<void> t = rt.spawn([&, c = counted()] { never.pass(); });
  until_blocked(t);
  t.detach();
  rt.cancel();
  rt.wait();
}

TEST_P(Failure, ADetachThatRacesTheEndFreesTheTaskOnce) {
  run([] {
    for (int i = 0; i < coir_test::scaled(3000); ++i) {
      coir::task<counted> t = coir::spawn([i] { return counted(i); });
      if (i % 2 == 0) coir::yield();
      t.detach();
    }
  });
  EXPECT_EQ(counted::live(), 0);
}

INSTANTIATE_TEST_SUITE_P(Processors, Failure, coir_test::processors, coir_test::processors_name);

}  // namespace
