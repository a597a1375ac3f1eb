// this_fiber::stop_token: signalled when the fiber is asked to stop, whenever it was asked for; its callbacks.
#include <atomic>
#include <chrono>
#include <stop_token>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using coir_test::until;
using coir_test::until_blocked;
using runtime_test::gate;
using namespace std::chrono_literals;

class StopToken : public runtime_test::leak_checked {};

TEST_P(StopToken, IsSignalledByRequestStop) {
  run([] {
    std::atomic<bool> started{false};
    coir::task<bool> t = coir::spawn([&] {
      const std::stop_token stop = coir::this_fiber::stop_token();
      EXPECT_TRUE(stop.stop_possible());
      EXPECT_FALSE(stop.stop_requested());
      started = true;
      until([&] { return stop.stop_requested(); });
      return coir::this_fiber::stop_token() == stop;
    });
    until([&] { return started.load(); });
    t.request_stop();
    EXPECT_TRUE(t.get());
  });
}

TEST_P(StopToken, AskedForAfterTheStopIsSignalledAlready) {
  run([] {
    coir::task<bool> t = coir::spawn([] { return coir::this_fiber::stop_token().stop_requested(); });
    t.request_stop();
    // It may have started before the request; then it has seen nothing, which is right as well.
    const bool seen = t.get();
    static_cast<void>(seen);

    gate never;
    coir::task<bool> blocked = coir::spawn([&] {
      EXPECT_THROW(never.pass(), coir::cancelled);
      return coir::this_fiber::stop_token().stop_requested();
    });
    until_blocked(blocked);
    blocked.request_stop();
    EXPECT_TRUE(blocked.get());
  });
}

TEST_P(StopToken, RacesTheRequestAndIsSignalledEitherWay) {
  run([] {
    for (int i = 0; i < coir_test::scaled(2000); ++i) {
      std::atomic<bool> asked{false};
      coir::task<void> t = coir::spawn([&] {
        const std::stop_token stop = coir::this_fiber::stop_token();
        asked = true;
        until([&] { return stop.stop_requested(); });
      });
      if (i % 2 == 0) until([&] { return asked.load(); });
      t.request_stop();
      t.get();
    }
  });
}

TEST_P(StopToken, CallbacksHaveRunWhenRequestStopReturns) {
  run([] {
    gate never, requested;
    std::atomic<int> called{0};
    coir::task<void> t = coir::spawn([&] {
      const std::stop_callback callback(coir::this_fiber::stop_token(), [&] { ++called; });
      EXPECT_THROW(never.pass(), coir::cancelled);
      // libstdc++ takes fibers on one thread for one; synchronized, ThreadSanitizer does not mind.
      const coir::uncancellable guard;
      requested.pass();
    });
    until_blocked(t);
    EXPECT_EQ(called, 0);
    t.request_stop();
    EXPECT_EQ(called, 1);
    requested.open();
    t.get();
  });
}

TEST_P(StopToken, ACallbackMayUseTheTaskAndStartFibers) {
  run([] {
    gate never, called;
    coir::task<void> t;
    t = coir::spawn([&] {
      const std::stop_callback callback(coir::this_fiber::stop_token(), [&] {
        t.request_stop();
        EXPECT_FALSE(t.ready());
        coir::go([&] { called.open(); });
      });
      const coir::uncancellable guard;
      never.pass();
    });
    until_blocked(t);
    t.request_stop();
    called.pass();
    never.open();
    t.wait();
  });
}

TEST_P(StopToken, OutlivesItsFiber) {
  run([] {
    std::stop_token kept;
    coir::spawn([&] { kept = coir::this_fiber::stop_token(); }).get();
    EXPECT_FALSE(kept.stop_requested());
    // The next fiber on that stack has a token of its own.
    coir::task<void> t = coir::spawn([&] {
      EXPECT_FALSE(coir::this_fiber::stop_token() == kept);
      EXPECT_THROW(coir::sleep_for(1h), coir::cancelled);
    });
    t.request_stop();
    t.get();
    EXPECT_FALSE(kept.stop_requested());
  });
}

TEST_P(StopToken, OfAGoFiberIsSignalledWhenTheRuntimeIsCancelled) {
  coir::runtime rt{opts()};
  std::atomic<bool> started{false};
  rt.go([&] {
    const std::stop_token stop = coir::this_fiber::stop_token();
    started = true;
    until([&] { return stop.stop_requested(); });
  });
  until([&] { return started.load(); });
  rt.cancel();
  rt.wait();
}

INSTANTIATE_TEST_SUITE_P(Processors, StopToken, coir_test::processors, coir_test::processors_name);

}  // namespace
