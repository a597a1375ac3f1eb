// The runtime's accessors of "the current worker, fiber, runtime" after migrations, in functions where an optimizer
// would like to ask but once. Built at several optimization levels; see CMakeLists.txt.
#include <atomic>
#include <chrono>
#include <vector>

#include <sys/syscall.h>
#include <unistd.h>

#include <coir/runtime.hpp>

#include "coir_test.hpp"
#include "fiber/fiber.hpp"
#include "sched/worker.hpp"

namespace {

using namespace coir::detail;

/// Not ::gettid(), which a compiler may remember.
[[gnu::noinline]] long running_on() {
  asm volatile("" ::: "memory");
  return ::syscall(SYS_gettid);
}

class Accessors : public coir_test::with_processors {
 protected:
  /// Runs `round(runtime)` in many fibers at once until `enough` rounds have begun on one thread and ended on another;
  /// with one processor, where none does but by a rare retake, a fixed number of times.
  template <class Round>
  void until_migrated(int enough, Round round) const {
    coir::runtime rt{opts()};
    std::atomic<int> migrated{0};
    const auto one = [&] {
      const long before = running_on();
      round(rt);
      if (running_on() != before) ++migrated;
    };
    for (int batches = 0; GetParam() == 1 ? batches < 10 : migrated < enough; ++batches) {
      rt.run([&] {
        std::vector<coir::task<void>> tasks;
        for (int i = 0; i < 50; ++i) {
          tasks.push_back(coir::spawn([&] {
            for (int k = 0; k < 100; ++k) one();
          }));
        }
        for (coir::task<void>& t : tasks) t.get();
      });
      if (HasFailure()) return;
    }
  }
};

/// Yields for about as long as it takes others to steal.
inline void yield_a_while() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(30);
  do coir::yield();
  while (std::chrono::steady_clock::now() < end);
}

TEST_P(Accessors, TheFibersIdentityStaysItsOwn) {
  until_migrated(200, [](coir::runtime& rt) {
    const coir::fiber_id id = coir::this_fiber::get_id();
    ASSERT_EQ(&coir::runtime::current(), &rt);
    yield_a_while();
    ASSERT_EQ(coir::this_fiber::get_id(), id);
    ASSERT_EQ(&coir::runtime::current(), &rt);
    ASSERT_TRUE(coir::this_fiber::is_fiber());
  });
}

TEST_P(Accessors, TheCurrentWorkerIsTheOneThatRunsTheFiber) {
  until_migrated(200, [](coir::runtime&) {
    fiber* const self = current_fiber();
    ASSERT_EQ(current_worker()->current, self);
    ASSERT_EQ(self->on, current_worker());
    yield_a_while();
    ASSERT_EQ(current_worker()->current, self);
    ASSERT_EQ(self->on, current_worker());
    ASSERT_EQ(current_fiber(), self);
  });
}

TEST_P(Accessors, EachOfManySwitchesInOneFunctionFindsTheRightWorker) {
  until_migrated(200, [](coir::runtime&) {
    fiber* const self = current_fiber();
    for (int i = 0; i < 20; ++i) {
      coir::yield();
      ASSERT_EQ(current_worker(), self->on);
      ASSERT_EQ(current_worker()->current, self);
    }
  });
}

TEST_P(Accessors, BlockingCallsInOneFunctionUseTheRightProcessor) {
  until_migrated(100, [](coir::runtime& rt) {
    // Each of these asks for the worker, switches, and asks again.
    coir::task<int> child = coir::spawn([] {
      coir::yield();
      return 1;
    });
    coir::sleep_for(std::chrono::microseconds(5));
    static_cast<void>(random_bits());
    ASSERT_EQ(child.get(), 1);
    ASSERT_EQ(&coir::runtime::current(), &rt);
    ASSERT_EQ(current_fiber()->on, current_worker());
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, Accessors, coir_test::processors, coir_test::processors_name);

}  // namespace
