// Moving and destroying tasks: like a std::jthread, one that is not joined stops its fiber and waits for it; and what a
// fiber used is used again.
#include <atomic>
#include <chrono>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using coir_test::until_blocked;
using runtime_test::counted;
using runtime_test::gate;
using namespace std::chrono_literals;

class TaskLifetime : public runtime_test::leak_checked {};

TEST_P(TaskLifetime, IsMovedWithItsFiber) {
  run([] {
    coir::task<int> a = coir::spawn([] { return 1; });
    const coir::fiber_id id = a.id();
    coir::task<int> b = std::move(a);
    EXPECT_FALSE(a.valid());
    EXPECT_EQ(b.id(), id);
    coir::task<int> c;
    c = std::move(b);
    EXPECT_EQ(c.get(), 1);
  });
}

TEST_P(TaskLifetime, MoveAssignmentOverARunningTaskStopsAndJoinsIt) {
  run([] {
    gate never;
    std::atomic<bool> unwound{false};
    coir::task<int> t = coir::spawn([&]() -> int {
      struct at_end {
        std::atomic<bool>& flag;
        ~at_end() { flag = true; }
      } sets{unwound};
      never.pass();
      return 1;
    });
    until_blocked(t);
    t = coir::spawn([] { return 2; });
    EXPECT_TRUE(unwound);
    EXPECT_EQ(t.get(), 2);
  });
}

TEST_P(TaskLifetime, SelfMoveAssignmentDoesNothing) {
  run([] {
    coir::task<int> t = coir::spawn([] { return 2; });
    coir::task<int>& same = t;
    t = std::move(same);
    EXPECT_EQ(t.get(), 2);
  });
}

TEST_P(TaskLifetime, TheDestructorRequestsStopAndJoins) {
  run([] {
    gate never;
    std::atomic<int> unwound{0};
    for (int i = 0; i < 50; ++i) {
      const coir::task<void> t = coir::spawn([&, c = counted()] {
        struct at_end {
          std::atomic<int>& count;
          ~at_end() { ++count; }
        } counts{unwound};
        never.pass();
      });
      if (i % 2 == 0) until_blocked(t);
    }
    EXPECT_EQ(counted::live(), 0);
    EXPECT_EQ(unwound, 50);
  });
}

TEST_P(TaskLifetime, TheDestructorDropsAResultOnce) {
  run([] {
    for (int i = 0; i < 50; ++i) {
      const coir::task<counted> t = coir::spawn([] { return counted(1); });
      if (i % 2 == 0) t.wait();
    }
    EXPECT_EQ(counted::live(), 0);
  });
}

TEST_P(TaskLifetime, TheDestructorDropsTheException) {
  run([] {
    const coir::task<void> t = coir::spawn([] { throw std::runtime_error("dropped"); });
    t.wait();
  });
}

TEST_P(TaskLifetime, TheDestructorOfAPlainThreadsTaskJoins) {
  coir::runtime rt{opts()};
  gate never;
  std::atomic<bool> unwound{false};
  {
    const coir::task<void> t = rt.spawn([&] {
      struct at_end {
        std::atomic<bool>& flag;
        ~at_end() { flag = true; }
      } sets{unwound};
      never.pass();
    });
    until_blocked(t);
  }
  EXPECT_TRUE(unwound);
}

TEST_P(TaskLifetime, TheDestructorJoinsInACancelledFiberToo) {
  run([] {
    gate never;
    std::atomic<bool> child_ended{false};
    coir::task<void> parent = coir::spawn([&] {
      const coir::task<void> child = coir::spawn([&] {
        try {
          never.pass();
        } catch (const coir::cancelled&) {
          const coir::uncancellable guard;
          coir::sleep_for(2ms);
          child_ended = true;
        }
      });
      never.pass();
    });
    until_blocked(parent);
    parent.request_stop();
    EXPECT_THROW(parent.get(), coir::task_cancelled);
    EXPECT_TRUE(child_ended);
  });
}

TEST_P(TaskLifetime, AHundredThousandOneAfterTheOtherReuseStacksAndRecords) {
  // How much memory the process has in its hands; the first rounds warm the pools.
  const auto resident_pages = [] {
    std::ifstream in("/proc/self/statm");
    long size = 0, resident = 0;
    in >> size >> resident;
    return resident;
  };
  run([&] {
    const auto rounds = [](int n) {
      for (int i = 0; i < n; ++i) {
        coir::task<int> t = coir::spawn([i, c = counted()] { return i; });
        if (i % 8 == 0) coir::yield();
        ASSERT_EQ(t.get(), i);
        coir::go([c = counted()] {});
      }
    };
    rounds(coir_test::scaled(10'000));
    const long before = resident_pages();
    rounds(coir_test::scaled(100'000));
    // Not reused, 100,000 stacks of a page or two would be 100,000 pages, and records 5,000; the sanitizers' own
    // bookkeeping grows for a while.
    if (!coir_test::address_sanitizer && !coir_test::thread_sanitizer) {
      EXPECT_LT(resident_pages() - before, 2'000);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, TaskLifetime, coir_test::processors, coir_test::processors_name);

}  // namespace
