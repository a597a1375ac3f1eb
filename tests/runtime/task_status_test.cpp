// What a task tells of its fiber: queued, running, blocked or finished, and which one it is.
#include <atomic>
#include <utility>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using coir::task_status;
using coir_test::until;
using coir_test::until_blocked;
using runtime_test::gate;

class TaskStatus : public runtime_test::leak_checked {};

TEST_P(TaskStatus, StatusTellsBlockedAndFinished) {
  run([] {
    gate door;
    const coir::task<void> t = coir::spawn([&] { door.pass(); });
    until([&] { return t.status() == task_status::blocked; });
    EXPECT_FALSE(t.ready());
    EXPECT_TRUE(door.awaited());  // blocked means: queued where it waits
    door.open();
    until([&] { return t.status() == task_status::finished; });
    EXPECT_TRUE(t.ready());
  });
}

TEST_P(TaskStatus, BlockedMeansQueuedWhereItWaits) {
  run([] {
    for (int i = 0; i < coir_test::scaled(2000); ++i) {
      gate door;
      const coir::task<void> t = coir::spawn([&] { door.pass(); });
      until_blocked(t);
      ASSERT_TRUE(door.awaited());
      door.open();
    }
  });
}

TEST(TaskOnOneProcessor, StatusTellsQueuedBeforeTheStart) {
  const auto [status, ready] = coir_test::on_one_processor([] {
    const coir::task<void> t = coir::spawn([] {});
    return std::pair(t.status(), t.ready());
  });
  EXPECT_EQ(status, task_status::queued);
  EXPECT_FALSE(ready);
}

TEST(TaskOnOneProcessor, StatusTellsQueuedOfOneThatYields) {
  const task_status status = coir_test::on_one_processor([] {
    std::atomic<bool> stop{false};
    const coir::task<void> t = coir::spawn([&] {
      while (!stop) coir::yield();
    });
    coir::yield();
    const task_status seen = t.status();
    stop = true;
    return seen;
  });
  EXPECT_EQ(status, task_status::queued);
}

TEST_P(TaskStatus, StatusTellsRunning) {
  coir::runtime rt{opts()};
  std::atomic<bool> started{false}, stop{false};
  coir::task<void> t = rt.spawn([&] {
    started = true;
    while (!stop) {
    }
  });
  until([&] { return started.load(); });
  EXPECT_EQ(t.status(), task_status::running);
  stop = true;
  t.get();
}

TEST_P(TaskStatus, AFiberSeesItselfRunning) {
  run([] {
    gate handed;
    coir::task<void> t;
    t = coir::spawn([&] {
      handed.pass();
      EXPECT_EQ(t.status(), task_status::running);
      coir::yield();
      EXPECT_EQ(t.status(), task_status::running);
    });
    handed.open();
    t.wait();
  });
}

TEST(TaskOnOneProcessor, AWokenFiberIsNoLongerBlocked) {
  const task_status status = coir_test::on_one_processor([] {
    gate door;
    const coir::task<void> t = coir::spawn([&] { door.pass(); });
    until_blocked(t);
    door.open();
    return t.status();
  });
  EXPECT_EQ(status, task_status::queued);
}

// ---- identity ------------------------------------------------------------------------------------------------------

TEST_P(TaskStatus, IdIsWhatTheFiberSeesInside) {
  run([] {
    coir::task<coir::this_fiber::id> t = coir::spawn([] { return coir::this_fiber::get_id(); });
    const coir::fiber_id id = t.id();
    EXPECT_NE(id, coir::fiber_id{});
    EXPECT_NE(id, coir::this_fiber::get_id());
    EXPECT_EQ(t.id(), id);
    EXPECT_EQ(t.get(), id);
    EXPECT_EQ(t.id(), coir::fiber_id{});
  });
}

TEST_P(TaskStatus, IdOfOneStartedFromOutsideIsWhatItSeesInside) {
  coir::runtime rt{opts()};
  coir::task<coir::this_fiber::id> t = rt.spawn([] { return coir::this_fiber::get_id(); });
  const coir::fiber_id id = t.id();
  EXPECT_EQ(t.get(), id);
}

INSTANTIATE_TEST_SUITE_P(Processors, TaskStatus, coir_test::processors, coir_test::processors_name);

}  // namespace
