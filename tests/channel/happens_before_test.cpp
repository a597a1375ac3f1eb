// The memory model, for ThreadSanitizer to check: plain data, ordered by nothing but the channel edge under test. The
// values are checked too, so the tests mean something in every build.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include <coir/chan.hpp>
#include <coir/select.hpp>

#include "coir_test.hpp"

namespace {

using coir::chan;
using coir::make_chan;
using coir_test::until_blocked;

class HappensBefore : public coir_test::with_processors {};

int rounds() { return coir_test::scaled(100'000) < 2'000 ? 2'000 : coir_test::scaled(100'000) / 10; }

/// A value that is written and read without any protection of its own.
struct plain {
  std::uint64_t value = 0;
};

/// The sender fills a cell and sends its index; the receiver reads the cell. One cell a round, so that only the send
/// that follows the write orders it.
template <class Start>
void send_before_receive(std::size_t capacity, Start start_sender) {
  const auto n = static_cast<std::size_t>(rounds());
  std::vector<plain> cells(n);
  const chan<std::size_t> ch = make_chan<std::size_t>(capacity);
  auto join = start_sender([&] {
    for (std::size_t i = 0; i < n; ++i) {
      cells[i].value = i * 3;
      ch.send(i);
    }
    ch.close();
  });
  std::size_t expected = 0;
  for (std::size_t i : ch) {
    ASSERT_EQ(i, expected++);
    ASSERT_EQ(cells[i].value, i * 3);
  }
  EXPECT_EQ(expected, n);
  join();
}

auto in_fiber = [](auto body) { return [t = coir::spawn(body)]() mutable { t.get(); }; };
auto in_thread = [](auto body) { return [t = std::thread(body)]() mutable { t.join(); }; };

TEST_P(HappensBefore, ASendBeforeTheCompletionOfItsReceive) {
  run([] {
    for (const std::size_t capacity : {std::size_t{0}, std::size_t{1}, std::size_t{16}}) {
      send_before_receive(capacity, in_fiber);
      send_before_receive(capacity, in_thread);
    }
  });
}

/// The k-th receive happens before the k+C-th send completes: a pool of C+1 cells, which the sender reuses as soon as a
/// send tells it that the reader of the oldest is done.
template <class Start>
void receive_before_send(std::size_t capacity, Start start_receiver) {
  const auto n = static_cast<std::size_t>(rounds());
  // While a send of number i+C is complete, receives 0..i are complete, and their receiver has said so by receiving
  // again: reading is over only when the next receive begins, hence one cell more.
  const std::size_t cells_in_use = capacity + 2;
  std::vector<plain> cells(cells_in_use);
  const chan<std::size_t> ch = make_chan<std::size_t>(capacity);
  auto join = start_receiver([&] {
    std::size_t expected = 0;
    while (const std::optional<std::size_t> i = ch.recv()) {
      EXPECT_EQ(*i, expected++);
      EXPECT_EQ(cells[*i % cells_in_use].value, *i);
    }
    EXPECT_EQ(expected, n);
  });
  for (std::size_t i = 0; i < n; ++i) {
    // The cell's last reader received number i - C - 2, and began to receive number i - C - 1 afterwards; that receive
    // happened before our send of number i - 1 was complete.
    cells[i % cells_in_use].value = i;
    ch.send(i);
  }
  ch.close();
  join();
}

TEST_P(HappensBefore, AReceiveBeforeTheCompletionOfTheSendThatTakesItsPlace) {
  run([] {
    for (const std::size_t capacity : {std::size_t{0}, std::size_t{1}, std::size_t{7}}) {
      receive_before_send(capacity, in_fiber);
      receive_before_send(capacity, in_thread);
    }
  });
}

TEST_P(HappensBefore, AReceiveWithoutABufferBeforeTheSendReturns) {
  run([] {
    const int n = rounds();
    plain shared;
    const chan<void> ch = make_chan<void>();
    // The receiver writes before it receives, the sender reads after it has sent: a one-way meeting in the other
    // direction.
    coir::task<void> receiver = coir::spawn([&] {
      for (int i = 0; i < n; ++i) {
        shared.value = static_cast<std::uint64_t>(i);
        ch.recv();
        ch.recv();
      }
    });
    for (int i = 0; i < n; ++i) {
      ch.send();
      ASSERT_EQ(shared.value, static_cast<std::uint64_t>(i));
      ch.send();
    }
    receiver.get();
  });
}

TEST_P(HappensBefore, ABufferAsASemaphoreGuardsPlainData) {
  run([] {
    const int n = rounds() / 4;
    plain counter;
    const chan<void> semaphore = make_chan<void>(1);  // send locks, receive unlocks
    auto work = [&] {
      for (int i = 0; i < n; ++i) {
        semaphore.send();
        ++counter.value;
        semaphore.recv();
      }
    };
    std::vector<coir::task<void>> tasks;
    for (int i = 0; i < 3; ++i) tasks.push_back(coir::spawn(work));
    std::thread thread(work);
    for (auto& t : tasks) t.get();
    thread.join();
    EXPECT_EQ(counter.value, 4 * static_cast<std::uint64_t>(n));
  });
}

TEST_P(HappensBefore, CloseBeforeAReceiveThatReturnsBecauseOfIt) {
  run([] {
    for (int round = 0; round < rounds() / 4; ++round) {
      plain data;
      const chan<int> ch = make_chan<int>(static_cast<std::size_t>(round % 2));
      std::vector<coir::task<std::uint64_t>> readers;
      for (int i = 0; i < 3; ++i) {
        readers.push_back(coir::spawn([&, i] {
          if (i == 0) {
            ch.recv();
          } else if (i == 1) {
            int unused = 0;
            while (ch.try_recv(unused) != coir::recv_status::closed) coir::yield();
          } else {
            coir::select(coir::on_recv(ch), coir::on_recv(chan<int>{}));
          }
          return data.value;
        }));
      }
      if (round % 3 == 0) until_blocked(readers[0]);
      data.value = 42;
      ch.close();
      for (auto& r : readers) ASSERT_EQ(r.get(), 42U);
    }
  });
}

TEST_P(HappensBefore, CloseBeforeTheBlockedSenderThatItRefuses) {
  run([] {
    for (int round = 0; round < rounds() / 8; ++round) {
      plain data;
      const chan<int> ch = make_chan<int>();
      coir::task<std::uint64_t> sender = coir::spawn([&] {
        try {
          ch.send(1);
        } catch (const coir::closed_channel&) {
        }
        return data.value;
      });
      if (round % 2 == 0) until_blocked(sender);
      data.value = 7;
      ch.close();
      ASSERT_EQ(sender.get(), 7U);
    }
  });
}

TEST_P(HappensBefore, SelectSynchronizesAsTheDirectOperationsDo) {
  run([] {
    const auto n = static_cast<std::size_t>(rounds());
    std::vector<plain> cells(n);
    const chan<std::size_t> a = make_chan<std::size_t>(), b = make_chan<std::size_t>(1);
    coir::task<void> sender = coir::spawn([&] {
      for (std::size_t i = 0; i < n; ++i) {
        cells[i].value = i + 1;
        coir::select(coir::on_send(a, i), coir::on_send(b, i));
      }
      a.close();
      b.close();
    });
    std::vector<bool> seen(n, false);
    std::size_t count = 0;
    const auto take = [&](std::optional<std::size_t> i) {
      if (!i) return;
      EXPECT_FALSE(seen[*i]);
      seen[*i] = true;
      EXPECT_EQ(cells[*i].value, *i + 1);
      ++count;
    };
    while (count < n) coir::select(coir::on_recv(a, take), coir::on_recv(b, take));
    sender.get();
  });
}

TEST_P(HappensBefore, TheValueItselfTravelsUnprotected) {
  run([] {
    const chan<std::vector<int>> ch = make_chan<std::vector<int>>(2), back = make_chan<std::vector<int>>();
    coir::task<void> echo = coir::spawn([&] {
      for (std::vector<int> v : ch) {
        v.push_back(static_cast<int>(v.size()));
        back.send(std::move(v));
      }
    });
    std::vector<int> v;
    for (int i = 0; i < 500; ++i) {
      ch.send(std::move(v));
      v = back.recv().value();
      v.back() += 1;
    }
    EXPECT_EQ(v.size(), 500U);
    ch.close();
    echo.get();
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, HappensBefore, coir_test::processors, coir_test::processors_name);

}  // namespace
