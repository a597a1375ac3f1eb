// A primitive is destroyed while somebody waits on it: the process ends with a report of who waits.
#include <csignal>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include <coir/barrier.hpp>
#include <coir/condition_variable.hpp>
#include <coir/latch.hpp>
#include <coir/mutex.hpp>
#include <coir/semaphore.hpp>
#include <coir/shared_mutex.hpp>
#include <coir/wait_group.hpp>

#include "actor.hpp"
#include "coir_test.hpp"

namespace {

using sync_test::actor;
using sync_test::kind;

class Destroyed : public coir_test::with_processors {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  /// Destroys a Primitive made of the arguments while somebody waits in wait(it).
  template <class Primitive, class F, class... Args>
  void destroy_while(kind who, F wait, Args... args) const {
    run([&] {
      auto primitive = std::make_unique<Primitive>(args...);
      actor waits(who, [&] { wait(*primitive); });
      waits.until_blocked();
      primitive.reset();
      waits.join();
    });
  }
};

void expect_reported(const std::function<void()>& misuse, const std::string& what, const std::string& who) {
  EXPECT_EXIT(misuse(), testing::KilledBySignal(SIGABRT),
              "coir: fatal: a " + what + " .0x[0-9a-f]+. is destroyed while others wait on it:\n  " + who);
}

TEST_P(Destroyed, AMutexIsReported) {
  const auto lock = [](auto& m) {
    m.lock();
    m.lock();
  };
  expect_reported([&] { destroy_while<coir::mutex>(kind::fiber, lock); }, "mutex",
                  "fiber [0-9]+, spawned at .*actor.hpp:[0-9]+: mutex lock");
  expect_reported([&] { destroy_while<coir::mutex>(kind::thread, lock); }, "mutex", "a thread");
}

TEST_P(Destroyed, ASharedMutexIsReported) {
  expect_reported(
      [&] {
        destroy_while<coir::shared_mutex>(kind::fiber, [](auto& m) {
          m.lock_shared();
          m.lock();
        });
      },
      "shared_mutex", "fiber [0-9]+, .*: shared_mutex lock");
}

TEST_P(Destroyed, ASemaphoreIsReported) {
  expect_reported(
      [&] {
        destroy_while<coir::semaphore>(
            kind::fiber,
            [](auto& s) {
              s.acquire();
              s.acquire();
            },
            1);
      },
      "semaphore", "fiber [0-9]+, .*: semaphore acquire");
}

TEST_P(Destroyed, AConditionVariableIsReported) {
  expect_reported(
      [&] {
        destroy_while<coir::condition_variable>(kind::fiber, [](auto& changed) {
          coir::mutex own;
          std::unique_lock held(own);
          changed.wait(held);
        });
      },
      "condition_variable", "fiber [0-9]+, .*: condition_variable wait");
}

TEST_P(Destroyed, AWaitGroupIsReported) {
  expect_reported(
      [&] {
        destroy_while<coir::wait_group>(kind::fiber, [](auto& group) {
          group.add();
          group.wait();
        });
      },
      "wait_group", "fiber [0-9]+, .*: wait_group");
}

TEST_P(Destroyed, ALatchIsReported) {
  expect_reported([&] { destroy_while<coir::latch>(kind::fiber, [](auto& l) { l.wait(); }, 1); }, "latch",
                  "fiber [0-9]+, .*: latch");
}

TEST_P(Destroyed, ABarrierIsReported) {
  expect_reported([&] { destroy_while<coir::barrier<>>(kind::fiber, [](auto& b) { b.arrive_and_wait(); }, 2); },
                  "barrier", "fiber [0-9]+, .*: barrier");
}

INSTANTIATE_TEST_SUITE_P(Processors, Destroyed, coir_test::processors, coir_test::processors_name);

}  // namespace
