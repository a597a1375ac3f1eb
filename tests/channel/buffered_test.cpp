// Buffered channels: when they block, in which order values come out, what close leaves in them, len and cap.
#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <coir/chan.hpp>

#include "coir_test.hpp"
#include "values.hpp"

namespace {

using coir::chan;
using coir::make_chan;
using coir::recv_status;
using coir::send_status;
using coir_test::until_blocked;

class BufferedChannel : public coir_test::with_processors {};

constexpr std::array<std::size_t, 7> capacities{0, 1, 2, 3, 4, 7, 100};

void fill(const chan<int>& ch) {
  for (int i = 0; i < static_cast<int>(ch.cap()); ++i) ASSERT_EQ(ch.try_send(i), send_status::done);
}

TEST_P(BufferedChannel, ReceiveOnEmptyBlocksAtEveryCapacity) {
  run([] {
    for (const std::size_t capacity : capacities) {
      const chan<int> ch = make_chan<int>(capacity);
      coir::task<std::optional<int>> receiver = coir::spawn([ch] { return ch.recv(); });
      until_blocked(receiver);
      ch.send(7);
      EXPECT_EQ(receiver.get(), 7) << "capacity " << capacity;
    }
  });
}

TEST_P(BufferedChannel, SendOnFullBlocksAtEveryCapacity) {
  run([] {
    for (const std::size_t capacity : capacities) {
      const chan<int> ch = make_chan<int>(capacity);
      fill(ch);
      coir::task<void> sender = coir::spawn([ch] { ch.send(-1); });
      until_blocked(sender);
      for (int i = 0; i < static_cast<int>(capacity); ++i) EXPECT_EQ(ch.recv(), i);
      EXPECT_EQ(ch.recv(), -1) << "capacity " << capacity;
      sender.get();
    }
  });
}

TEST_P(BufferedChannel, ReceiveBlocksAgainOnceTheBufferIsDrained) {
  run([] {
    for (const std::size_t capacity : capacities) {
      const chan<int> ch = make_chan<int>(capacity);
      fill(ch);
      while (ch.len() > 0) ch.recv();
      coir::task<std::optional<int>> receiver = coir::spawn([ch] { return ch.recv(); });
      until_blocked(receiver);
      ch.send(3);
      EXPECT_EQ(receiver.get(), 3);
    }
  });
}

TEST_P(BufferedChannel, TryFormsNeverBlock) {
  run([] {
    for (const std::size_t capacity : capacities) {
      const chan<int> ch = make_chan<int>(capacity);
      int value = 99;
      EXPECT_EQ(ch.try_recv(value), recv_status::would_block);
      EXPECT_EQ(value, 99);
      fill(ch);
      EXPECT_EQ(ch.try_send(-1), send_status::would_block) << "capacity " << capacity;
      for (int i = 0; i < static_cast<int>(capacity); ++i) {
        EXPECT_EQ(ch.try_recv(value), recv_status::done);
        EXPECT_EQ(value, i);
      }
      EXPECT_EQ(ch.try_recv(value), recv_status::would_block);
    }
  });
}

TEST_P(BufferedChannel, TrySendThatWouldBlockLeavesTheValueWithItsCaller) {
  run([] {
    const chan<channel_test::counted> ch = make_chan<channel_test::counted>(1);
    channel_test::counted first{1}, second{2};
    EXPECT_EQ(ch.try_send(std::move(first)), send_status::done);
    EXPECT_FALSE(first.holds_value());
    EXPECT_EQ(ch.try_send(std::move(second)), send_status::would_block);
    EXPECT_TRUE(second.holds_value());
  });
  EXPECT_EQ(channel_test::counted::alive(), 0);
}

TEST_P(BufferedChannel, HoldsExactlyItsCapacity) {
  run([] {
    for (std::size_t capacity = 0; capacity <= 17; ++capacity) {
      const chan<int> ch = make_chan<int>(capacity);
      std::size_t held = 0;
      while (held < 100 && ch.try_send(1) == send_status::done) ++held;
      EXPECT_EQ(held, capacity);
    }
  });
}

TEST_P(BufferedChannel, LenAndCapAreExact) {
  run([] {
    for (const std::size_t capacity : capacities) {
      const chan<int> ch = make_chan<int>(capacity);
      EXPECT_EQ(ch.cap(), capacity);
      // Twice, so that a ring buffer wraps around.
      for (int round = 0; round < 2; ++round) {
        for (std::size_t i = 0; i < capacity; ++i) {
          EXPECT_EQ(ch.len(), i);
          ch.send(1);
        }
        EXPECT_EQ(ch.len(), capacity);
        for (std::size_t i = capacity / 2; i < capacity; ++i) ch.recv();
        EXPECT_EQ(ch.len(), capacity / 2);
        while (ch.len() > 0) ch.recv();
      }
      EXPECT_EQ(ch.cap(), capacity);
    }
  });
}

TEST_P(BufferedChannel, LenCountsNeitherWaitingSendersNorReceivers) {
  run([] {
    const chan<int> ch = make_chan<int>(2);
    std::vector<coir::task<void>> tasks;
    for (int i = 0; i < 5; ++i) tasks.push_back(coir::spawn([ch] { ch.recv(); }));
    until_blocked(tasks);
    EXPECT_EQ(ch.len(), 0U);
    for (int i = 0; i < 5; ++i) ch.send(i);
    for (auto& t : tasks) t.get();
    EXPECT_EQ(ch.len(), 0U);

    tasks.clear();
    fill(ch);
    for (int i = 0; i < 5; ++i) tasks.push_back(coir::spawn([ch] { ch.send(1); }));
    until_blocked(tasks);
    EXPECT_EQ(ch.len(), 2U);
    for (int i = 0; i < 7; ++i) ch.recv();
    EXPECT_EQ(ch.len(), 0U);
  });
}

TEST_P(BufferedChannel, AbsurdCapacityIsRefusedByName) {
  run([] {
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    EXPECT_THROW((void)make_chan<int>(most), std::length_error);
    EXPECT_THROW((void)make_chan<int>(most / 2), std::length_error);
    EXPECT_THROW((void)make_chan<char>(most), std::length_error);
    EXPECT_THROW((void)make_chan<channel_test::page>(most / sizeof(channel_test::page) + 2), std::length_error);
    // A capacity for which rounding up to a power of two, or the product with the size, would wrap around to few.
    EXPECT_THROW((void)make_chan<channel_test::page>(most / sizeof(channel_test::page) + 1), std::length_error);
  });
}

TEST_P(BufferedChannel, ValuesSurviveCloseInOrder) {
  run([] {
    for (const std::size_t capacity : capacities) {
      const chan<int> ch = make_chan<int>(capacity);
      fill(ch);
      ch.close();
      EXPECT_EQ(ch.len(), capacity);
      for (int i = 0; i < static_cast<int>(capacity); ++i) EXPECT_EQ(ch.recv(), i);
      EXPECT_EQ(ch.recv(), std::nullopt);
    }
  });
}

TEST_P(BufferedChannel, AfterTheLastValueEveryReceiveSaysClosedForever) {
  run([] {
    const chan<int> ch = make_chan<int>(2);
    fill(ch);
    ch.close();
    int value = 0;
    EXPECT_EQ(ch.try_recv(value), recv_status::done);
    EXPECT_EQ(ch.recv_for(value, std::chrono::hours(1)), recv_status::done);
    for (int i = 0; i < 1000; ++i) {
      EXPECT_EQ(ch.recv(), std::nullopt);
      EXPECT_EQ(ch.try_recv(value), recv_status::closed);
      EXPECT_EQ(ch.recv_for(value, std::chrono::hours(1)), recv_status::closed);
    }
    EXPECT_EQ(value, 1);
  });
}

TEST_P(BufferedChannel, ReceiveFromAFullBufferMovesTheWaitingSendersValueToTheTail) {
  run([] {
    const chan<int> ch = make_chan<int>(2);
    fill(ch);
    coir::task<void> first = coir::spawn([ch] { ch.send(2); });
    until_blocked(first);
    coir::task<void> second = coir::spawn([ch] { ch.send(3); });
    until_blocked(second);

    EXPECT_EQ(ch.recv(), 0);
    first.get();  // its value is in the buffer, though nobody has received it
    EXPECT_EQ(ch.len(), 2U);
    EXPECT_EQ(second.status(), coir::task_status::blocked);
    int value = -1;
    EXPECT_EQ(ch.try_recv(value), recv_status::done);
    EXPECT_EQ(value, 1);
    second.get();
    EXPECT_EQ(ch.len(), 2U);
    EXPECT_EQ(ch.recv(), 2);
    EXPECT_EQ(ch.recv(), 3);
  });
}

TEST_P(BufferedChannel, CloseKeepsTheBufferAndRefusesTheWaitingSender) {
  run([] {
    const chan<int> ch = make_chan<int>(1);
    ch.send(1);
    coir::task<void> sender = coir::spawn([ch] { ch.send(2); });
    until_blocked(sender);
    ch.close();
    EXPECT_THROW(sender.get(), coir::closed_channel);
    EXPECT_EQ(ch.recv(), 1);
    EXPECT_EQ(ch.recv(), std::nullopt);
  });
}

TEST_P(BufferedChannel, ThreadsAndFibersShareOneChannelInOrder) {
  run([] {
    for (const std::size_t capacity : {std::size_t{1}, std::size_t{3}, std::size_t{64}}) {
      const int n = coir_test::scaled(20'000);
      const chan<int> to_thread = make_chan<int>(capacity), from_thread = make_chan<int>(capacity);
      std::thread echo([&] {
        for (int v : to_thread) from_thread.send(v);
        from_thread.close();
      });
      coir::task<void> sender = coir::spawn([&] {
        for (int i = 0; i < n; ++i) to_thread.send(i);
        to_thread.close();
      });
      int expected = 0;
      while (const std::optional<int> v = from_thread.recv()) EXPECT_EQ(*v, expected++);
      EXPECT_EQ(expected, n);
      sender.get();
      echo.join();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, BufferedChannel, coir_test::processors, coir_test::processors_name);

}  // namespace
