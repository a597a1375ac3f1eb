// on_ready: the end of a task as a case of a select.
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <coir/async.hpp>
#include <coir/select.hpp>

#include "coir_test.hpp"

namespace {

using coir::on_ready;
using coir::on_recv;
using coir::select;
using coir_test::scaled;
using coir_test::until_blocked;
using namespace std::chrono_literals;

class SelectReady : public coir_test::with_processors {};

void block_forever() { coir::make_chan<void>().recv(); }

TEST_P(SelectReady, IsTakenOnceTheTaskHasEnded) {
  run([] {
    const auto go_on = coir::make_chan<void>();
    coir::task<int> t = coir::spawn([&] {
      go_on.recv();
      return 7;
    });
    int got = 0;
    coir::task<void> selector =
        coir::spawn([&] { EXPECT_EQ(select(on_recv(coir::chan<int>()), on_ready(t, [&] { got = t.get(); })), 1U); });
    until_blocked(selector);
    go_on.send();
    selector.get();
    EXPECT_EQ(got, 7);
  });
}

TEST_P(SelectReady, OfATaskThatHasEndedDoesNotBlock) {
  run([] {
    coir::task<void> t = coir::spawn([] {});
    t.wait();
    EXPECT_EQ(select(on_ready(t), coir::otherwise()), 0U);
    EXPECT_EQ(select(on_ready(t)), 0U);
    t.get();
  });
}

TEST_P(SelectReady, OfOneThatRunsIsNotReady) {
  run([] {
    const coir::task<void> t = coir::spawn(block_forever);
    EXPECT_EQ(select(on_ready(t), coir::otherwise()), 1U);
    EXPECT_EQ(select(on_ready(t), coir::on_timeout(1ms)), 1U);
  });
}

TEST_P(SelectReady, OfAnEmptyOrDetachedTaskIsALogicError) {
  run([] {
    coir::task<int> empty;
    EXPECT_THROW(select(on_ready(empty), coir::otherwise()), std::logic_error);
    coir::task<int> detached = coir::spawn([] { return 1; });
    detached.detach();
    EXPECT_THROW(select(on_ready(detached), coir::otherwise()), std::logic_error);
    coir::task<int> got = coir::spawn([] { return 1; });
    got.get();
    coir::select_set set;
    EXPECT_THROW(set.ready(got), std::logic_error);
  });
}

TEST_P(SelectReady, TellsOfAFailureTooWhichGetThrows) {
  run([] {
    coir::task<void> fails = coir::spawn([] { throw std::out_of_range("x"); });
    EXPECT_EQ(select(on_ready(fails)), 0U);
    EXPECT_THROW(fails.get(), std::out_of_range);
    coir::task<void> stopped = coir::spawn(block_forever);
    stopped.request_stop();
    EXPECT_EQ(select(on_ready(stopped)), 0U);
    EXPECT_THROW(stopped.get(), coir::task_cancelled);
  });
}

TEST_P(SelectReady, LeavesNothingBehindIfAnotherCaseIsTaken) {
  run([] {
    const auto go_on = coir::make_chan<void>();
    const auto ch = coir::make_chan<int>();
    coir::task<int> t = coir::spawn([&] {
      go_on.recv();
      return 7;
    });
    coir::task<void> selector = coir::spawn([&] { EXPECT_EQ(select(on_ready(t), on_recv(ch)), 1U); });
    until_blocked(selector);
    ch.send(1);
    selector.get();
    coir::task<void> cancelled = coir::spawn([&] { select(on_ready(t), on_recv(ch)); });
    until_blocked(cancelled);
    cancelled.request_stop();
    EXPECT_THROW(cancelled.get(), coir::task_cancelled);
    go_on.send();
    EXPECT_EQ(t.get(), 7);
  });
}

TEST_P(SelectReady, ManySelectsMayWaitForOneTaskAndOneForMany) {
  run([] {
    const auto go_on = coir::make_chan<void>();
    std::vector<coir::task<void>> tasks;
    for (int i = 0; i < 10; ++i) tasks.push_back(coir::spawn([&] { go_on.recv(); }));
    until_blocked(tasks);
    std::vector<coir::task<std::size_t>> selectors;
    for (int i = 0; i < 5; ++i)
      selectors.push_back(coir::spawn([&] {
        coir::select_set set;
        for (const auto& t : tasks) set.ready(t);
        return set.wait();
      }));
    until_blocked(selectors);
    go_on.send();
    std::size_t ended = 0;
    coir_test::until([&] {
      for (ended = 0; ended < tasks.size(); ++ended)
        if (tasks[ended].ready()) return true;
      return false;
    });
    for (auto& s : selectors) EXPECT_EQ(s.get(), ended);
    go_on.close();
  });
}

TEST_P(SelectReady, ASetTakesEachOfItsTasksAsItEnds) {
  run([] {
    std::vector<coir::task<int>> tasks;
    for (int i = 0; i < 20; ++i) tasks.push_back(coir::spawn([i] { return coir::yield(), i; }));
    int sum = 0;
    coir::select_set set;
    for (auto& t : tasks) set.ready(t, [&] { sum += t.get(); });  // from then on its case is never ready
    for (std::size_t i = 0; i < tasks.size(); ++i) set.wait();
    EXPECT_EQ(sum, 190);
  });
}

TEST_P(SelectReady, AThreadMayWaitToo) {
  coir::runtime rt{opts()};
  for (int i = 0; i < scaled(200); ++i) {
    coir::task<int> t = rt.spawn([i] { return i; });
    EXPECT_EQ(select(on_ready(t), coir::on_timeout(10h)), 0U);
    EXPECT_EQ(t.get(), i);
  }
}

TEST_P(SelectReady, ACoroutineMayWaitToo) {
  run([] {
    const auto go_on = coir::make_chan<void>();
    coir::task<int> t = coir::spawn([&] {
      go_on.recv();
      return 7;
    });
    coir::task<int> selector = coir::spawn([&]() -> coir::async<int> {
      const std::size_t fired = co_await coir::async_select(on_ready(t), on_recv(coir::chan<int>()));
      co_return fired == 0 ? t.get() : 0;
    });
    until_blocked(selector);
    go_on.send();
    EXPECT_EQ(selector.get(), 7);
  });
}

// The end may come before, while, and after the select goes to sleep, and race another case.
TEST_P(SelectReady, ThatRacesASendIsNeverMissed) {
  run([] {
    int ended_first = 0;
    for (int i = 0; i < scaled(5'000); ++i) {
      const auto ch = coir::make_chan<int>();
      coir::task<int> t = coir::spawn([i] {
        for (int k = i % 4; k > 0; --k) coir::yield();
        return i;
      });
      coir::task<void> sender = coir::spawn([&, i] {
        for (int k = i % 5; k > 0; --k) coir::yield();
        ch.send(1);
      });
      if (select(on_ready(t), on_recv(ch)) == 0) {
        ++ended_first;
        ASSERT_TRUE(t.ready());
        ch.recv();
      }
      ASSERT_EQ(t.get(), i);
      sender.get();
    }
    RecordProperty("ended_first", ended_first);
  });
}

TEST_P(SelectReady, WhatTheTaskDidIsSeenByTheHandler) {
  run([] {
    for (int i = 0; i < scaled(2'000); ++i) {
      int plain = 0;
      coir::task<void> t = coir::spawn([&] { plain = 1; });
      select(on_ready(t, [&] { EXPECT_EQ(plain, 1); }));
      ASSERT_EQ(plain, 1);
    }
  });
}

TEST_P(SelectReady, OfTasksThatWaitForEachOtherIsADeadlock) {
  EXPECT_THROW(run([] {
                 const coir::task<void> t = coir::spawn(block_forever);
                 select(on_ready(t));
               }),
               coir::deadlock);
}

INSTANTIATE_TEST_SUITE_P(Processors, SelectReady, coir_test::processors, coir_test::processors_name);

}  // namespace
