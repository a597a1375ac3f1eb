// COIR_DEBUG=blocked: a fiber that is blocked for too long is reported, once for each wait, with its stack.
#include <chrono>
#include <cstdlib>
#include <string>

#include <coir/error.hpp>
#include <coir/sleep.hpp>

#include "coir_test.hpp"
#include "gate.hpp"
#include "observe/stack_walk.hpp"
#include "stderr_capture.hpp"

namespace {

using coir_test::until;
using runtime_test::gate;
using namespace std::chrono_literals;

extern "C" [[gnu::noinline]] void blocked_watch_test_waits_here(gate& g) {
  g.pass();
  asm volatile("" ::: "memory");
}

class BlockedWatch : public coir_test::with_processors {
 protected:
  void SetUp() override { ASSERT_EQ(::setenv("COIR_DEBUG", "blocked=20", 1), 0); }
  ~BlockedWatch() override { ::unsetenv("COIR_DEBUG"); }
};

std::string named(const coir::task<void>& t, const char* name) {
  return "fiber " + std::to_string(t.id().number()) + " \"" + name + "\", spawned at ";
}

TEST_P(BlockedWatch, AFiberBlockedTooLongIsReportedWithWhatItWaitsOnAndItsStack) {
  coir_test::stderr_capture err;
  coir::runtime rt{opts()};
  gate g;
  coir::task<void> waits = rt.spawn(
      [&] {
        coir::this_fiber::set_name("stuck");
        blocked_watch_test_waits_here(g);
      },
      coir::source_location("somewhere.cpp", 77));
  const std::string report = named(waits, "stuck") + "somewhere.cpp:77: blocked for ";
  until([&] { return err.count(report) != 0 && err.count(" in gate 0x") != 0; });
  EXPECT_EQ(err.count("coir: 1 fiber has been blocked for longer than 20 ms:\n\n" + report), 1U) << err.text();
  if (coir::detail::unwinder::available()) {
    until([&] { return err.count("\n    blocked_watch_test_waits_here+0x") != 0; });
  }
  g.open();
  waits.get();
}

TEST_P(BlockedWatch, OncePerWait) {
  coir_test::stderr_capture err;
  coir::runtime rt{opts()};
  gate first, second, other;
  coir::task<void> waits = rt.spawn([&] {
    coir::this_fiber::set_name("twice");
    first.pass();
    second.pass();
  });
  until([&] { return err.count(named(waits, "twice")) == 1; });
  // By the time that another one's wait is too long, the first has been looked at again.
  coir::task<void> later = rt.spawn([&] {
    coir::this_fiber::set_name("later");
    other.pass();
  });
  until([&] { return err.count(named(later, "later")) == 1; });
  EXPECT_EQ(err.count(named(waits, "twice")), 1U) << err.text();
  first.open();
  until([&] { return err.count(named(waits, "twice")) == 2; });
  second.open();
  other.open();
  waits.get();
  later.get();
}

TEST_P(BlockedWatch, WhoSleepsOrWaitsWithADeadlineIsNot) {
  coir_test::stderr_capture err;
  coir::runtime rt{opts()};
  gate never, g;
  coir::task<void> sleeps = rt.spawn([] { coir::sleep_for(1h); });
  coir::task<bool> tries = rt.spawn([&] { return never.pass_for(1h); });
  coir_test::until_blocked(sleeps);
  coir_test::until_blocked(tries);
  coir::task<void> waits = rt.spawn([&] {
    coir::this_fiber::set_name("stuck");
    g.pass();
  });
  until([&] { return err.count(named(waits, "stuck")) == 1; });
  EXPECT_EQ(err.count("coir: 1 fiber has been blocked"), 1U) << err.text();
  EXPECT_EQ(err.count("spawned at"), 1U) << err.text();
  g.open();
  never.open();
  sleeps.request_stop();
  waits.get();
  EXPECT_TRUE(tries.get());
  EXPECT_THROW(sleeps.get(), coir::task_cancelled);
}

INSTANTIATE_TEST_SUITE_P(Processors, BlockedWatch, coir_test::processors, coir_test::processors_name);

}  // namespace
