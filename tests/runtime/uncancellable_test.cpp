// uncancellable: clean-up code may block though its fiber is cancelled; the cancellation waits for the section's end.
#include <atomic>
#include <chrono>
#include <vector>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using coir_test::until_blocked;
using runtime_test::gate;
using namespace std::chrono_literals;

class Uncancellable : public runtime_test::leak_checked {};

TEST_P(Uncancellable, DefersACancellationThatIsPending) {
  run([] {
    gate never;
    bool slept = false;
    coir::task<void> t = coir::spawn([&] {
      {
        const coir::uncancellable guard;
        coir::sleep_for(1ms);
        slept = true;
      }
      never.pass();
    });
    t.request_stop();
    EXPECT_THROW(t.get(), coir::task_cancelled);
    EXPECT_TRUE(slept);
  });
}

TEST_P(Uncancellable, DefersACancellationThatComesWhileItBlocks) {
  run([] {
    gate door, never;
    bool passed = false;
    coir::task<void> t = coir::spawn([&] {
      {
        const coir::uncancellable guard;
        door.pass();
        passed = true;
      }
      never.pass();
    });
    until_blocked(t);
    t.request_stop();
    for (int i = 0; i < 100; ++i) {
      coir::yield();
      ASSERT_EQ(t.status(), coir::task_status::blocked);
    }
    door.open();
    EXPECT_THROW(t.get(), coir::task_cancelled);
    EXPECT_TRUE(passed);
  });
}

TEST_P(Uncancellable, Nests) {
  run([] {
    gate stopped;
    coir::task<int> t = coir::spawn([&] {
      int slept = 0;
      const auto sleeps = [&] {
        coir::sleep_for(1us);
        ++slept;
      };
      {
        const coir::uncancellable outer;
        stopped.pass();
        sleeps();
        {
          const coir::uncancellable inner;
          sleeps();
        }
        sleeps();
      }
      EXPECT_THROW(coir::sleep_for(1h), coir::cancelled);
      return slept;
    });
    t.request_stop();
    stopped.open();
    EXPECT_EQ(t.get(), 3);
  });
}

TEST_P(Uncancellable, IsOfItsFiberAlone) {
  run([] {
    gate never;
    const coir::uncancellable guard;
    coir::task<void> t = coir::spawn([&] { never.pass(); });
    until_blocked(t);
    t.request_stop();
    EXPECT_THROW(t.get(), coir::task_cancelled);
  });
}

TEST_P(Uncancellable, DoesNothingOutsideAFiber) {
  const coir::uncancellable guard;
  EXPECT_EQ(run([] { return 1; }), 1);
}

TEST_P(Uncancellable, ADestructorThatUnwindsMayBlockInIt) {
  run([] {
    gate never;
    std::atomic<int> cleaned{0};
    std::vector<coir::task<void>> tasks;
    for (int i = 0; i < 50; ++i) {
      tasks.push_back(coir::spawn([&] {
        struct cleaner {
          std::atomic<int>& count;
          ~cleaner() {
            const coir::uncancellable guard;
            coir::sleep_for(100us);
            coir::spawn([] { coir::yield(); }).get();
            ++count;
          }
        } cleans{cleaned};
        never.pass();
      }));
    }
    until_blocked(tasks);
    for (coir::task<void>& t : tasks) t.request_stop();
    for (coir::task<void>& t : tasks) EXPECT_THROW(t.get(), coir::task_cancelled);
    EXPECT_EQ(cleaned, 50);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, Uncancellable, coir_test::processors, coir_test::processors_name);

}  // namespace
