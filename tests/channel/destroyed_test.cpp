// The last handle of a channel goes while a fiber waits on it, which it did by a reference to somebody else's handle:
// the process ends with a report of who waits, and not somewhere later by what the fiber does to freed memory.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include <coir/chan.hpp>
#include <coir/error.hpp>
#include <coir/select.hpp>

#include "coir_test.hpp"

namespace {

using coir::chan;
using coir::make_chan;

class DestroyedChannel : public coir_test::with_processors {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  /// Drops the only handle while `wait` uses it in a fiber.
  template <class F>
  void drop_while(F wait) const {
    run([&] {
      auto only = std::make_unique<chan<int>>(make_chan<int>());
      coir::task<void> waits = coir::spawn([&] {
        coir::this_fiber::set_name("waits");
        wait(*only);
      });
      coir_test::until_blocked(waits);
      only.reset();
    });
  }
};

#define EXPECT_REPORTED(statement, who)                    \
  EXPECT_EXIT(statement, testing::KilledBySignal(SIGABRT), \
              std::string("coir: fatal: a channel .0x[0-9a-f]+. is destroyed while others wait on it:\n  ") + (who))

TEST_P(DestroyedChannel, UnderAReceiverIsReported) {
  EXPECT_REPORTED(drop_while([](const chan<int>& ch) { ch.recv(); }),
                  "fiber [0-9]+ \"waits\", spawned at .*destroyed_test.cpp:[0-9]+: chan receive");
}

TEST_P(DestroyedChannel, UnderASenderIsReported) {
  EXPECT_REPORTED(drop_while([](const chan<int>& ch) { ch.send(7); }), "fiber [0-9]+ \"waits\", .*: chan send");
}

TEST_P(DestroyedChannel, UnderATimedReceiverIsReported) {
  EXPECT_REPORTED(drop_while([](const chan<int>& ch) {
                    int into = 0;
                    ch.recv_for(into, std::chrono::hours(1));
                  }),
                  "fiber [0-9]+ \"waits\"");
}

TEST_P(DestroyedChannel, ByAnAssignmentIsReported) {
  const auto replace = [&] {
    run([] {
      chan<int> ch = make_chan<int>();
      coir::task<void> waits = coir::spawn([&] { ch.recv(); });
      coir_test::until_blocked(waits);
      ch = make_chan<int>();
    });
  };
  EXPECT_REPORTED(replace(), "fiber [0-9]+, spawned at ");
}

TEST_P(DestroyedChannel, UnderAThreadIsReported) {
  const auto drop = [] {
    auto only = std::make_unique<chan<int>>(make_chan<int>());
    std::atomic<coir::detail::waiter*> who{nullptr};
    std::thread waits([&] {
      who = &coir::detail::this_waiter();
      only->recv();
    });
    coir_test::until([&] {
      const coir::detail::waiter* w = who.load();
      return w != nullptr && (w->word() & coir::detail::waiter::state_mask) == coir::detail::waiter::waiting;
    });
    only.reset();
    waits.join();
  };
  EXPECT_REPORTED(drop(), "a thread");
}

// Threads may go on while static objects are destroyed; who waits then waits for good.
TEST_P(DestroyedChannel, InExitIsNot) {
  const auto leave = [&] {
    static chan<int> global;
    global = make_chan<int>();
    run([] {
      coir::task<void> waits = coir::spawn([] { global.recv(); });
      coir_test::until_blocked(waits);
      std::exit(7);
    });
  };
  EXPECT_EXIT(leave(), testing::ExitedWithCode(7), "^$");
}

// All wake at once, and may find destroyed what was on the stacks of those that ran first. The deadlock is reported.
// With one processor: else it is a race, of the program's.
TEST(DestroyedChannelUnwinding, OfADeadlockIsNot) {
  if (coir_test::thread_sanitizer) GTEST_SKIP() << "it knows no processors";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto deadlock = [] {
    try {
      coir::options one;
      one.processors = 1;
      coir::run(one, [] {
        const chan<int> local = make_chan<int>(), other = make_chan<int>();
        coir::task<void> waits = coir::spawn([on = &local] { on->recv(); });
        coir_test::until_blocked(waits);
        waits.detach();
        other.recv();
      });
    } catch (const coir::deadlock&) {
      std::_Exit(7);
    }
  };
  EXPECT_EXIT(deadlock(), testing::ExitedWithCode(7), "^$");
}

INSTANTIATE_TEST_SUITE_P(Processors, DestroyedChannel, coir_test::processors, coir_test::processors_name);

}  // namespace
