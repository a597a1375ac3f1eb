// Unbuffered channels: a send and a receive meet, or both wait.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include <coir/chan.hpp>

#include "coir_test.hpp"

namespace {

using namespace std::chrono_literals;
using coir::chan;
using coir::make_chan;
using coir::recv_status;
using coir::send_status;
using coir_test::until_blocked;

class UnbufferedChannel : public coir_test::with_processors {};

TEST_P(UnbufferedChannel, SendCompletesOnlyWhenAReceiverTakesTheValue) {
  run([] {
    const chan<int> ch = make_chan<int>();
    std::atomic<bool> sent{false};
    coir::task<void> sender = coir::spawn([&] {
      ch.send(5);
      sent = true;
    });
    until_blocked(sender);
    EXPECT_FALSE(sent);
    EXPECT_EQ(ch.len(), 0U);
    EXPECT_EQ(ch.cap(), 0U);
    EXPECT_EQ(ch.recv(), 5);
    sender.get();
    EXPECT_TRUE(sent);
  });
}

TEST_P(UnbufferedChannel, TryFormsMeetParkedPeersAndNothingElse) {
  run([] {
    const chan<int> ch = make_chan<int>();
    int value = 0;
    EXPECT_EQ(ch.try_recv(value), recv_status::would_block);
    EXPECT_EQ(ch.try_send(1), send_status::would_block);

    coir::task<void> sender = coir::spawn([ch] { ch.send(2); });
    until_blocked(sender);
    EXPECT_EQ(ch.try_send(3), send_status::would_block);
    EXPECT_EQ(ch.try_recv(value), recv_status::done);
    EXPECT_EQ(value, 2);
    sender.get();

    coir::task<std::optional<int>> receiver = coir::spawn([ch] { return ch.recv(); });
    until_blocked(receiver);
    EXPECT_EQ(ch.try_recv(value), recv_status::would_block);
    EXPECT_EQ(ch.try_send(4), send_status::done);
    EXPECT_EQ(receiver.get(), 4);
  });
}

TEST_P(UnbufferedChannel, TwoSendersAndOneParkedReceiverLoseNeitherValue) {
  run([] {
    for (int round = 0; round < coir_test::scaled(5'000); ++round) {
      const chan<int> ch = make_chan<int>();
      coir::task<std::optional<int>> receiver = coir::spawn([ch] { return ch.recv(); });
      until_blocked(receiver);
      coir::task<void> one = coir::spawn([ch] { ch.send(1); });
      coir::task<void> two = coir::spawn([ch] { ch.send(2); });
      const std::optional<int> first = receiver.get();
      const std::optional<int> second = ch.recv();
      ASSERT_TRUE(first && second);
      ASSERT_EQ(*first + *second, 3);
      one.get();
      two.get();
    }
  });
}

TEST_P(UnbufferedChannel, TwoThreadsSendToOneParkedReceiverAndLoseNeitherValue) {
  run([] {
    const chan<int> ch = make_chan<int>();
    const int n = coir_test::scaled(10'000);
    auto send_all = [&] {
      for (int i = 1; i <= n; ++i) ch.send(i);
    };
    std::thread one(send_all), two(send_all);
    long long sum = 0;
    for (int i = 0; i < 2 * n; ++i) sum += ch.recv().value();
    EXPECT_EQ(sum, static_cast<long long>(n) * (n + 1));
    one.join();
    two.join();
  });
}

TEST_P(UnbufferedChannel, SendAfterAReceiverTimedOutReachesTheNextOne) {
  run([] {
    const chan<int> ch = make_chan<int>();
    int value = 0;
    EXPECT_EQ(ch.recv_for(value, 1ms), recv_status::timed_out);
    coir::task<void> sender = coir::spawn([ch] { ch.send(1); });
    until_blocked(sender);  // the receiver that left must not have taken it
    EXPECT_EQ(ch.recv(), 1);
    sender.get();
  });
}

TEST_P(UnbufferedChannel, ReceiversThatTimeOutWhileAValueComesNeitherHangNorLoseIt) {
  run([] {
    const chan<int> ch = make_chan<int>();
    const int n = coir_test::scaled(20'000);
    coir::task<void> sender = coir::spawn([&] {
      for (int i = 0; i < n; ++i) ch.send(i);
    });
    int expected = 0;
    for (int spin = 0; expected < n; ++spin) {
      int value = -1;
      // From no time at all to a few switches: the timer and the sender claim the same waiter.
      if (ch.recv_for(value, std::chrono::nanoseconds(spin % 7 * 300)) == recv_status::done) {
        ASSERT_EQ(value, expected);
        ++expected;
      }
    }
    sender.get();
  });
}

TEST_P(UnbufferedChannel, PingPongKeepsItsOrder) {
  run([] {
    const chan<int> there = make_chan<int>(), back = make_chan<int>();
    const int n = coir_test::scaled(100'000);
    coir::task<void> partner = coir::spawn([&] {
      for (int v : there) back.send(v + 1);
    });
    for (int i = 0; i < n; ++i) {
      there.send(i);
      ASSERT_EQ(back.recv(), i + 1);
    }
    there.close();
    partner.get();
  });
}

TEST_P(UnbufferedChannel, PingPongBetweenAFiberAndAThreadKeepsItsOrder) {
  run([] {
    const chan<int> there = make_chan<int>(), back = make_chan<int>();
    const int n = coir_test::scaled(10'000);
    std::thread partner([&] {
      for (int v : there) back.send(v + 1);
    });
    for (int i = 0; i < n; ++i) {
      there.send(i);
      EXPECT_EQ(back.recv(), i + 1);
    }
    there.close();
    partner.join();
  });
}

TEST_P(UnbufferedChannel, ChainOfTenThousandFibersPassesAValueThrough) {
  run([] {
    const std::size_t links = coir_test::thread_sanitizer ? 500 : 10'000;
    for (const std::size_t capacity : {std::size_t{0}, std::size_t{1}}) {
      const chan<std::size_t> last = make_chan<std::size_t>(capacity);
      chan<std::size_t> right = last;
      for (std::size_t i = 0; i < links; ++i) {
        const chan<std::size_t> left = make_chan<std::size_t>(capacity);
        coir::go([left, right] {
          while (const std::optional<std::size_t> v = left.recv()) right.send(*v + 1);
          right.close();
        });
        right = left;
      }
      right.send(0);
      right.send(1'000'000);
      right.close();
      EXPECT_EQ(last.recv(), links);
      EXPECT_EQ(last.recv(), 1'000'000 + links);
      EXPECT_EQ(last.recv(), std::nullopt);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, UnbufferedChannel, coir_test::processors, coir_test::processors_name);

}  // namespace
