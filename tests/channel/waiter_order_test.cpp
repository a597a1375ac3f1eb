// First come, first served: waiters of a channel are served in the order in which they began to wait, whatever those
// between them do; and leaving the queue from its middle is cheap.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <coir/chan.hpp>
#include <coir/select.hpp>

#include "coir_test.hpp"

namespace {

using namespace std::chrono_literals;
using coir::chan;
using coir::make_chan;
using coir::recv_status;
using coir_test::until_blocked;

class WaiterOrder : public coir_test::with_processors {};

/// A receive in one of its spellings.
int receive_somehow(const chan<int>& ch, int spelling) {
  switch (spelling % 3) {
    case 0:
      return ch.recv().value();
    case 1: {
      int value = -1;
      EXPECT_EQ(ch.recv_for(value, 10h), recv_status::done);
      return value;
    }
    default: {
      std::optional<int> value;
      coir::select(coir::on_recv(chan<int>{}), coir::on_recv(ch, value));
      return value.value();
    }
  }
}

void send_somehow(const chan<int>& ch, int value, int spelling) {
  switch (spelling % 3) {
    case 0:
      return ch.send(value);
    case 1:
      EXPECT_TRUE(ch.send_for(value, 10h));
      return;
    default:
      coir::select(coir::on_send(ch, value), coir::on_recv(chan<int>{}));
      return;
  }
}

TEST_P(WaiterOrder, ReceiversAreServedInOrderOfArrivalHoweverTheyWait) {
  run([] {
    for (const std::size_t capacity : {std::size_t{0}, std::size_t{2}}) {
      const chan<int> ch = make_chan<int>(capacity);
      std::vector<coir::task<int>> receivers;
      for (int i = 0; i < 60; ++i) {
        receivers.push_back(coir::spawn([ch, i] { return receive_somehow(ch, i); }));
        until_blocked(receivers.back());
      }
      for (int i = 0; i < 60; ++i) ch.send(i);
      for (int i = 0; i < 60; ++i) EXPECT_EQ(receivers[static_cast<std::size_t>(i)].get(), i);
    }
  });
}

TEST_P(WaiterOrder, SendersAreServedInOrderOfArrivalHoweverTheyWait) {
  run([] {
    for (const std::size_t capacity : {std::size_t{0}, std::size_t{2}}) {
      const chan<int> ch = make_chan<int>(capacity);
      for (std::size_t i = 0; i < capacity; ++i) ch.send(-1);
      std::vector<coir::task<void>> senders;
      for (int i = 0; i < 60; ++i) {
        senders.push_back(coir::spawn([ch, i] { send_somehow(ch, i, i); }));
        until_blocked(senders.back());
      }
      for (std::size_t i = 0; i < capacity; ++i) EXPECT_EQ(ch.recv(), -1);
      for (int i = 0; i < 60; ++i) EXPECT_EQ(ch.recv(), i);
      for (auto& t : senders) t.get();
    }
  });
}

TEST_P(WaiterOrder, ANewcomerDoesNotPassAWaitingSender) {
  run([] {
    const chan<int> ch = make_chan<int>(1);
    ch.send(0);
    coir::task<void> waiting = coir::spawn([ch] { ch.send(1); });
    until_blocked(waiting);
    EXPECT_EQ(ch.recv(), 0);
    EXPECT_EQ(ch.try_send(2), coir::send_status::would_block);  // the room went to the waiting sender
    EXPECT_EQ(ch.recv(), 1);
    waiting.get();
  });
}

TEST_P(WaiterOrder, WaitersThatLeaveTheMiddleLeaveTheOthersInOrder) {
  run([] {
    const chan<int> ch = make_chan<int>();
    std::vector<coir::task<int>> stay;
    std::vector<coir::task<void>> leave;
    for (int i = 0; i < 40; ++i) {
      stay.push_back(coir::spawn([ch, i] { return receive_somehow(ch, i); }));
      until_blocked(stay.back());
      leave.push_back(coir::spawn([ch, i] {
        int value = 0;
        if (i % 2 == 0)
          ch.recv_for(value, 10h);
        else
          coir::select(coir::on_recv(ch), coir::on_recv(ch));
      }));
      until_blocked(leave.back());
    }
    for (std::size_t i = 0; i < leave.size(); i += 3) leave[i].request_stop();
    for (std::size_t i = 0; i < leave.size(); ++i)
      if (i % 3 != 0) leave[i].request_stop();
    for (auto& t : leave) EXPECT_THROW(t.get(), coir::task_cancelled);
    for (int i = 0; i < 40; ++i) ch.send(i);
    for (int i = 0; i < 40; ++i) EXPECT_EQ(stay[static_cast<std::size_t>(i)].get(), i);
  });
}

TEST_P(WaiterOrder, TheFirstLastAndOnlyWaiterCanLeave) {
  run([] {
    for (std::size_t leaver = 0; leaver < 3; ++leaver) {
      const chan<int> ch = make_chan<int>();
      std::vector<coir::task<int>> receivers;
      for (int i = 0; i < 3; ++i) {
        receivers.push_back(coir::spawn([ch] { return ch.recv().value(); }));
        until_blocked(receivers.back());
      }
      receivers[leaver].request_stop();
      EXPECT_THROW(receivers[leaver].get(), coir::task_cancelled);
      ch.send(1);
      ch.send(2);
      int expected = 1;
      for (std::size_t i = 0; i < 3; ++i) {
        if (i == leaver) continue;
        EXPECT_EQ(receivers[i].get(), expected++);
      }
    }
    const chan<int> ch = make_chan<int>();
    coir::task<int> only = coir::spawn([ch] { return ch.recv().value(); });
    until_blocked(only);
    only.request_stop();
    EXPECT_THROW(only.get(), coir::task_cancelled);
    EXPECT_EQ(ch.try_send(1), coir::send_status::would_block);
    only = coir::spawn([ch] { return ch.recv().value(); });
    ch.send(2);
    EXPECT_EQ(only.get(), 2);
  });
}

// A queue that had to be searched for the node would take minutes here, and so the test its time limit: the latest
// arrivals time out first, those at the queue's end; then the earliest, those at its front.
TEST_P(WaiterOrder, AHundredThousandWaitersThatTimeOutDoNotCostQuadraticTime) {
  run([] {
    const std::size_t waiters = coir_test::max_live_fibers;
    for (const bool latest_first : {true, false}) {
      const chan<int> ch = make_chan<int>();
      std::vector<coir::task<recv_status>> tasks;
      const auto start = std::chrono::steady_clock::now() + 200ms;
      for (std::size_t i = 0; i < waiters; ++i) {
        const auto end = start + std::chrono::microseconds(latest_first ? waiters - i : i);
        tasks.push_back(coir::spawn([ch, end] {
          int value = 0;
          return ch.recv_until(value, end);
        }));
      }
      coir::task<std::optional<int>> last = coir::spawn([ch] { return ch.recv(); });
      std::size_t timed_out = 0;
      for (auto& t : tasks) timed_out += t.get() == recv_status::timed_out ? 1U : 0U;
      EXPECT_EQ(timed_out, waiters);
      ch.send(1);
      EXPECT_EQ(last.get(), 1);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, WaiterOrder, coir_test::processors, coir_test::processors_name);

}  // namespace
