// close: whom it wakes, with what, and every race between it and an operation that is just beginning.
#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>
#include <vector>

#include <coir/chan.hpp>

#include "coir_test.hpp"
#include "values.hpp"

namespace {

using namespace std::chrono_literals;
using channel_test::counted;
using coir::chan;
using coir::make_chan;
using coir::recv_status;
using coir::send_status;
using coir_test::expect_throw_message;
using coir_test::until_blocked;

class ChannelClose : public coir_test::with_processors {};

constexpr std::array<std::size_t, 3> few_capacities{0, 1, 4};

TEST_P(ChannelClose, WakesEveryBlockedReceiverWithClosed) {
  run([] {
    for (const std::size_t capacity : few_capacities) {
      const chan<int> ch = make_chan<int>(capacity);
      std::vector<coir::task<std::optional<int>>> plain;
      std::vector<coir::task<recv_status>> timed;
      for (int i = 0; i < 50; ++i) plain.push_back(coir::spawn([ch] { return ch.recv(); }));
      for (int i = 0; i < 50; ++i) {
        timed.push_back(coir::spawn([ch] {
          int value = 0;
          return ch.recv_for(value, 10h);
        }));
      }
      until_blocked(plain);
      until_blocked(timed);
      ch.close();
      for (auto& t : plain) EXPECT_EQ(t.get(), std::nullopt);
      for (auto& t : timed) EXPECT_EQ(t.get(), recv_status::closed);
    }
  });
}

TEST_P(ChannelClose, WakesEveryBlockedSenderWithClosedChannel) {
  run([] {
    for (const std::size_t capacity : few_capacities) {
      const chan<int> ch = make_chan<int>(capacity);
      for (std::size_t i = 0; i < capacity; ++i) ch.send(0);
      std::vector<coir::task<void>> senders;
      for (int i = 0; i < 50; ++i) senders.push_back(coir::spawn([ch] { ch.send(1); }));
      for (int i = 0; i < 50; ++i) {
        senders.push_back(coir::spawn([ch] {
          int value = 1;
          ch.send_for(value, 10h);
        }));
      }
      until_blocked(senders);
      ch.close();
      for (auto& t : senders) expect_throw_message<coir::closed_channel>([&] { t.get(); }, "send on closed channel");
    }
  });
}

TEST_P(ChannelClose, DestroysTheValuesOfBlockedSendersOnce) {
  run([] {
    const chan<counted> ch = make_chan<counted>(2);
    ch.send(counted{1});
    ch.send(counted{2});
    std::vector<coir::task<void>> senders;
    for (int i = 0; i < 20; ++i) senders.push_back(coir::spawn([ch] { ch.send(counted{3}); }));
    until_blocked(senders);
    EXPECT_EQ(counted::alive(), 22);
    ch.close();
    for (auto& t : senders) EXPECT_THROW(t.get(), coir::closed_channel);
    EXPECT_EQ(counted::alive(), 2);
    EXPECT_EQ(ch.recv()->value(), 1);
    EXPECT_EQ(ch.recv()->value(), 2);
    EXPECT_FALSE(ch.recv());
  });
  EXPECT_EQ(counted::alive(), 0);
}

TEST_P(ChannelClose, WakesThreadsBlockedOrAboutTo) {
  run([] {
    for (int round = 0; round < coir_test::scaled(500); ++round) {
      const chan<int> empty = make_chan<int>(), full = make_chan<int>();
      bool received_end = false, refused = false;
      std::thread receiver([&] {
        EXPECT_EQ(empty.recv(), 1);
        received_end = !empty.recv();
      });
      std::thread sender([&] {
        full.send(1);
        try {
          full.send(2);
        } catch (const coir::closed_channel&) {
          refused = true;
        }
      });
      // Each has got as far as its second operation, and is in it, or about to be.
      empty.send(1);
      full.recv();
      empty.close();
      full.close();
      receiver.join();
      sender.join();
      ASSERT_TRUE(received_end);
      ASSERT_TRUE(refused);
    }
  });
}

TEST_P(ChannelClose, ByAThreadWakesBlockedFibers) {
  run([] {
    const chan<int> empty = make_chan<int>(), full = make_chan<int>();
    coir::task<std::optional<int>> receiver = coir::spawn([&] { return empty.recv(); });
    coir::task<void> sender = coir::spawn([&] { full.send(1); });
    until_blocked(receiver);
    until_blocked(sender);
    std::thread closer([&] {
      empty.close();
      full.close();
    });
    EXPECT_EQ(receiver.get(), std::nullopt);
    EXPECT_THROW(sender.get(), coir::closed_channel);
    closer.join();
  });
}

TEST_P(ChannelClose, MakesEverySendFailByName) {
  run([] {
    for (const std::size_t capacity : few_capacities) {
      const chan<int> ch = make_chan<int>(capacity);
      ch.close();
      int value = 1;
      expect_throw_message<coir::closed_channel>([&] { ch.send(1); }, "send on closed channel");
      expect_throw_message<coir::closed_channel>([&] { ch.send(value); }, "send on closed channel");
      expect_throw_message<coir::closed_channel>([&] { ch.send_for(value, 1h); }, "send on closed channel");
      expect_throw_message<coir::closed_channel>([&] { ch.send_for(value, 0s); }, "send on closed channel");
      expect_throw_message<coir::closed_channel>([&] { ch.send_until(value, std::chrono::steady_clock::now() + 1h); },
                                                 "send on closed channel");
      EXPECT_EQ(ch.try_send(value), send_status::closed);
    }
  });
}

TEST_P(ChannelClose, LeavesTheValueOfARefusedSendWithItsCaller) {
  run([] {
    const chan<counted> ch = make_chan<counted>(1);
    ch.close();
    counted value{1};
    EXPECT_EQ(ch.try_send(std::move(value)), send_status::closed);
    EXPECT_TRUE(value.holds_value());
    EXPECT_THROW(ch.send_for(std::move(value), 1h), coir::closed_channel);
    EXPECT_TRUE(value.holds_value());

    const chan<counted> later = make_chan<counted>();
    coir::task<bool> sender = coir::spawn([&] {
      counted mine{2};
      EXPECT_THROW(later.send_for(std::move(mine), 1h), coir::closed_channel);
      return mine.holds_value();
    });
    until_blocked(sender);
    later.close();
    EXPECT_TRUE(sender.get());
  });
  EXPECT_EQ(counted::alive(), 0);
}

TEST_P(ChannelClose, TwiceFailsByName) {
  run([] {
    const chan<int> ch = make_chan<int>(1);
    ch.close();
    expect_throw_message<coir::closed_channel>([&] { ch.close(); }, "close of closed channel");
    const chan<void> signal = make_chan<void>();
    signal.close();
    expect_throw_message<coir::closed_channel>([&] { coir::send_chan<void>(signal).close(); },
                                               "close of closed channel");
  });
}

TEST_P(ChannelClose, OfManyClosersExactlyOneSucceeds) {
  run([] {
    for (int round = 0; round < coir_test::scaled(500); ++round) {
      const chan<int> ch = make_chan<int>();
      std::vector<coir::task<bool>> closers;
      for (int i = 0; i < 4; ++i) {
        closers.push_back(coir::spawn([ch] {
          try {
            ch.close();
            return true;
          } catch (const coir::closed_channel&) {
            return false;
          }
        }));
      }
      int succeeded = 0;
      for (auto& t : closers) succeeded += t.get() ? 1 : 0;
      ASSERT_EQ(succeeded, 1);
    }
  });
}

TEST_P(ChannelClose, TryRecvRacingCloseNeverSaysWouldBlockWhileAValueRemains) {
  run([] {
    for (int round = 0; round < coir_test::scaled(20'000); ++round) {
      const chan<int> ch = make_chan<int>(3);
      for (int i = 0; i < 3; ++i) ch.send(i);
      coir::task<void> closer = coir::spawn([ch] { ch.close(); });
      int value = -1;
      for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(ch.try_recv(value), recv_status::done);
        ASSERT_EQ(value, i);
      }
      closer.get();
      ASSERT_EQ(ch.try_recv(value), recv_status::closed);
    }
  });
}

TEST_P(ChannelClose, TryRecvThatSeesTheLastSendersCloseHasSeenItsValues) {
  run([] {
    for (int round = 0; round < coir_test::scaled(10'000); ++round) {
      const chan<int> ch = make_chan<int>(2);
      coir::task<void> sender = coir::spawn([ch] {
        ch.send(1);
        ch.send(2);
        ch.close();
      });
      int seen = 0;
      for (int value = 0;;) {
        const recv_status status = ch.try_recv(value);
        if (status == recv_status::closed) break;
        if (status == recv_status::would_block) {
          coir::yield();
        } else {
          ASSERT_EQ(value, ++seen);
        }
      }
      ASSERT_EQ(seen, 2);
    }
  });
}

TEST_P(ChannelClose, BetweenAFailedTryAndTheWaitStillWakesAReceiver) {
  run([] {
    for (int round = 0; round < coir_test::scaled(20'000); ++round) {
      const chan<int> ch = make_chan<int>();
      coir::task<void> closer = coir::spawn([ch] { ch.close(); });
      int value = 0;
      const recv_status tried = ch.try_recv(value);
      ASSERT_TRUE(tried == recv_status::would_block || tried == recv_status::closed);
      ASSERT_EQ(ch.recv(), std::nullopt);
      closer.get();
    }
  });
}

TEST_P(ChannelClose, BetweenAFailedTryAndTheWaitStillWakesASender) {
  run([] {
    for (int round = 0; round < coir_test::scaled(20'000); ++round) {
      const chan<int> ch = make_chan<int>(1);
      ch.send(0);
      coir::task<void> closer = coir::spawn([ch] { ch.close(); });
      const send_status tried = ch.try_send(1);
      ASSERT_TRUE(tried == send_status::would_block || tried == send_status::closed);
      ASSERT_THROW(ch.send(1), coir::closed_channel);
      closer.get();
    }
  });
}

TEST_P(ChannelClose, BetweenAFailedTryAndTheWaitStillWakesAThread) {
  run([] {
    for (int round = 0; round < coir_test::scaled(500); ++round) {
      const chan<int> ch = make_chan<int>();
      std::thread receiver([ch] {
        int value = 0;
        ch.try_recv(value);
        EXPECT_EQ(ch.recv(), std::nullopt);
      });
      ch.close();
      receiver.join();
    }
  });
}

TEST_P(ChannelClose, RacingSendersAndReceiversLosesNoValueThatWasSent) {
  run([] {
    for (const std::size_t capacity : few_capacities) {
      for (int round = 0; round < coir_test::scaled(2'000); ++round) {
        const chan<int> ch = make_chan<int>(capacity);
        auto send_until_closed = [ch] {
          int sent = 0;
          try {
            for (; sent < 30; ++sent) ch.send(1);
          } catch (const coir::closed_channel&) {
          }
          return sent;
        };
        auto receive_until_closed = [ch] {
          int received = 0;
          while (ch.recv()) ++received;
          return received;
        };
        coir::task<int> s1 = coir::spawn(send_until_closed), s2 = coir::spawn(send_until_closed);
        coir::task<int> r1 = coir::spawn(receive_until_closed), r2 = coir::spawn(receive_until_closed);
        for (int i = 0; i < round % 20; ++i) coir::yield();
        ch.close();
        ASSERT_EQ(s1.get() + s2.get(), r1.get() + r2.get());
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, ChannelClose, coir_test::processors, coir_test::processors_name);

}  // namespace
