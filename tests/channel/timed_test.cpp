// Waiting for a limited time: never early, a ready channel first, and a value that comes at the deadline is not lost.
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <thread>
#include <utility>
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
using coir_test::until_blocked;
using steady = std::chrono::steady_clock;

class TimedChannel : public coir_test::with_processors {};

TEST_P(TimedChannel, WaitsTimeOutAndNeverEarly) {
  run([] {
    const chan<int> ch = make_chan<int>(1);
    int value = 7;
    for (const auto d : {1us, 100us, 3000us}) {
      auto start = steady::now();
      EXPECT_EQ(ch.recv_for(value, d), recv_status::timed_out);
      EXPECT_GE(steady::now() - start, d);
      start = steady::now();
      EXPECT_EQ(ch.recv_until(value, start + d), recv_status::timed_out);
      EXPECT_GE(steady::now() - start, d);
    }
    EXPECT_EQ(value, 7);
    ch.send(0);
    for (const auto d : {1us, 100us, 3000us}) {
      auto start = steady::now();
      EXPECT_FALSE(ch.send_for(value, d));
      EXPECT_GE(steady::now() - start, d);
      start = steady::now();
      EXPECT_FALSE(ch.send_until(value, start + d));
      EXPECT_GE(steady::now() - start, d);
    }
    EXPECT_EQ(ch.len(), 1U);
  });
}

TEST_P(TimedChannel, ASendThatTimedOutLeavesTheValueWithItsCaller) {
  run([] {
    const chan<counted> ch = make_chan<counted>();
    counted value{1};
    EXPECT_FALSE(ch.send_for(std::move(value), 1ms));
    EXPECT_TRUE(value.holds_value());
    EXPECT_FALSE(ch.send_for(std::move(value), -1h));
    EXPECT_TRUE(value.holds_value());
    coir::task<std::optional<counted>> receiver = coir::spawn([ch] { return ch.recv(); });
    EXPECT_TRUE(ch.send_for(std::move(value), 10h));
    EXPECT_FALSE(value.holds_value());
    EXPECT_EQ(receiver.get()->value(), 1);
  });
  EXPECT_EQ(counted::alive(), 0);
}

TEST_P(TimedChannel, AnLvalueIsCopiedAndAnRvalueMovedOnSuccessAlone) {
  run([] {
    const chan<std::string> ch = make_chan<std::string>(2);
    const std::string constant = "a text that is too long to be stored in place";
    std::string value = constant;
    EXPECT_TRUE(ch.send_for(value, 0s));
    EXPECT_EQ(ch.try_send(value), coir::send_status::done);
    EXPECT_EQ(value, constant);
    EXPECT_EQ(ch.try_send(std::move(value)), coir::send_status::would_block);
    EXPECT_FALSE(ch.send_for(std::move(value), 1ms));
    EXPECT_FALSE(ch.send_until(std::move(value), steady::now() + 1ms));
    EXPECT_EQ(value, constant);
    EXPECT_EQ(ch.recv(), constant);
    EXPECT_TRUE(ch.send_for(std::move(value), 10h));
    EXPECT_TRUE(value.empty());
    EXPECT_EQ(ch.recv(), constant);
    EXPECT_EQ(ch.recv(), constant);
    EXPECT_TRUE(ch.send_until(constant, steady::now() - 1s));
  });
}

/// Can be neither made from nothing nor assigned.
struct fixed {
  explicit fixed(int v) noexcept : value(v) {}
  fixed(fixed&&) noexcept = default;
  fixed& operator=(fixed&&) = delete;
  const int value;
};

TEST_P(TimedChannel, AReceiveFillsAnOptionalAndLeavesItEmptyUnlessDone) {
  run([] {
    const chan<fixed> ch = make_chan<fixed>(4);
    std::optional<fixed> got;
    got.emplace(0);
    EXPECT_EQ(ch.try_recv(got), recv_status::would_block);
    EXPECT_FALSE(got);
    for (int i = 1; i <= 4; ++i) ch.send(fixed(i));
    EXPECT_EQ(ch.try_recv(got), recv_status::done);
    EXPECT_EQ(got->value, 1);
    EXPECT_EQ(ch.recv_for(got, 0s), recv_status::done);
    EXPECT_EQ(got->value, 2);
    EXPECT_EQ(ch.recv_until(got, steady::now() + 1h), recv_status::done);
    EXPECT_EQ(got->value, 3);
    EXPECT_EQ(ch.recv_for(got, 1h), recv_status::done);
    EXPECT_EQ(ch.recv_for(got, 1ms), recv_status::timed_out);
    EXPECT_FALSE(got);
    coir::task<int> receiver = coir::spawn([ch] {
      std::optional<fixed> mine;
      EXPECT_EQ(ch.recv_for(mine, 10h), recv_status::done);
      return mine ? mine->value : 0;
    });
    until_blocked(receiver);
    ch.send(fixed(7));
    EXPECT_EQ(receiver.get(), 7);
    got.emplace(0);
    ch.close();
    EXPECT_EQ(ch.recv_until(got, steady::now() + 1h), recv_status::closed);
    EXPECT_FALSE(got);
    EXPECT_EQ(chan<fixed>{}.try_recv(got), recv_status::would_block);
  });
}

TEST_P(TimedChannel, AReadyChannelProceedsThoughTheTimeIsOver) {
  run([] {
    const chan<int> ch = make_chan<int>(1);
    int value = 1;
    for (const auto d : {0ns, -1ns, std::chrono::nanoseconds(-1h), std::chrono::nanoseconds::min()}) {
      EXPECT_TRUE(ch.send_for(value, d));
      EXPECT_FALSE(ch.send_for(value, d));
      EXPECT_EQ(ch.recv_for(value, d), recv_status::done);
      EXPECT_EQ(ch.recv_for(value, d), recv_status::timed_out);
    }
    EXPECT_TRUE(ch.send_until(value, steady::time_point::min()));
    EXPECT_EQ(ch.recv_until(value, steady::now() - 1h), recv_status::done);
    EXPECT_EQ(ch.recv_until(value, std::chrono::system_clock::now() - 1h), recv_status::timed_out);
  });
}

TEST_P(TimedChannel, AnyDurationIsClampedAndNotOverflowed) {
  run([] {
    const chan<int> ch = make_chan<int>();
    auto serve_one = [&](auto wait) {
      coir::task<void> waiter = coir::spawn(wait);
      until_blocked(waiter);
      ch.send(5);
      waiter.get();
    };
    serve_one([&] {
      int value = 0;
      EXPECT_EQ(ch.recv_for(value, std::chrono::hours::max()), recv_status::done);
    });
    serve_one([&] {
      int value = 0;
      EXPECT_EQ(ch.recv_for(value, std::chrono::nanoseconds::max()), recv_status::done);
    });
    serve_one([&] {
      int value = 0;
      EXPECT_EQ(ch.recv_for(value, std::chrono::duration<double>(1e300)), recv_status::done);
    });
    serve_one([&] {
      int value = 0;
      EXPECT_EQ(ch.recv_until(value, steady::time_point::max()), recv_status::done);
    });
    serve_one([&] {
      int value = 0;
      EXPECT_EQ(ch.recv_until(value, std::chrono::system_clock::time_point::max()), recv_status::done);
    });
    int value = 0;
    EXPECT_EQ(ch.recv_for(value, std::chrono::hours::min()), recv_status::timed_out);
    EXPECT_EQ(ch.recv_for(value, std::chrono::duration<double, std::milli>(0.5)), recv_status::timed_out);
  });
}

TEST_P(TimedChannel, AWaitThatIsServedInTimeSucceeds) {
  run([] {
    const chan<int> ch = make_chan<int>();
    coir::task<recv_status> receiver = coir::spawn([ch] {
      int value = 0;
      const recv_status status = ch.recv_for(value, 10h);
      EXPECT_EQ(value, 3);
      return status;
    });
    until_blocked(receiver);
    ch.send(3);
    EXPECT_EQ(receiver.get(), recv_status::done);

    coir::task<bool> sender = coir::spawn([ch] {
      int value = 4;
      return ch.send_until(value, steady::now() + 10h);
    });
    until_blocked(sender);
    EXPECT_EQ(ch.recv(), 4);
    EXPECT_TRUE(sender.get());
  });
}

/// Sends and receives that all may time out at about the moment when they meet: what one side reports, the other does.
template <class Sender, class Receiver>
void race(const chan<counted>& ch, Sender start_sender, Receiver start_receiver, int rounds) {
  int sent = 0, received = 0;
  auto sender = start_sender([&] {
    for (int i = 0; i < rounds; ++i) {
      counted value{i};
      if (ch.send_for(std::move(value), std::chrono::nanoseconds(i % 11 * 700))) {
        EXPECT_FALSE(value.holds_value());
        ++sent;
      } else {
        EXPECT_TRUE(value.holds_value());
      }
    }
  });
  auto receiver = start_receiver([&] {
    for (int i = 0; i < rounds; ++i) {
      counted value{-1};
      if (ch.recv_for(value, std::chrono::nanoseconds(i % 13 * 600)) == recv_status::done) {
        EXPECT_GE(value.value(), 0);
        ++received;
      } else {
        EXPECT_EQ(value.value(), -1);
      }
    }
  });
  sender();
  receiver();
  counted left{-1};
  while (ch.try_recv(left) == recv_status::done) ++received;
  EXPECT_EQ(sent, received);
}

/// Starts a body as a fiber or as a thread, and gives back how to join it.
auto as_fiber = [](auto body) { return [t = coir::spawn(body)]() mutable { t.get(); }; };
auto as_thread = [](auto body) { return [t = std::thread(body)]() mutable { t.join(); }; };

TEST_P(TimedChannel, TimeoutAndValueAtOnceAreEitherNeverBoth) {
  run([] {
    for (const std::size_t capacity : {std::size_t{0}, std::size_t{1}}) {
      const chan<counted> ch = make_chan<counted>(capacity);
      race(ch, as_fiber, as_fiber, coir_test::scaled(20'000));
      race(ch, as_thread, as_fiber, coir_test::scaled(2'000));
      race(ch, as_fiber, as_thread, coir_test::scaled(2'000));
    }
  });
  EXPECT_EQ(counted::alive(), 0);
}

TEST_P(TimedChannel, AWaiterCancelledInATimedWaitHasNeitherSentNorReceived) {
  run([] {
    const chan<counted> ch = make_chan<counted>();
    coir::task<void> receiver = coir::spawn([ch] {
      counted value{0};
      ch.recv_for(value, 10h);
    });
    until_blocked(receiver);
    receiver.request_stop();
    EXPECT_THROW(receiver.get(), coir::task_cancelled);
    coir::task<bool> sender = coir::spawn([ch] {
      counted value{1};
      EXPECT_THROW(ch.send_for(std::move(value), 10h), coir::cancelled);
      return value.holds_value();
    });
    until_blocked(sender);
    sender.request_stop();
    EXPECT_TRUE(sender.get());
    counted value{2};
    EXPECT_EQ(ch.try_recv(value), recv_status::would_block);
  });
  EXPECT_EQ(counted::alive(), 0);
}

TEST_P(TimedChannel, CancelAndValueAtOnceAreEitherNeverBoth) {
  run([] {
    const chan<counted> ch = make_chan<counted>();
    int sent = 0, received = 0;
    for (int round = 0; round < coir_test::scaled(10'000); ++round) {
      coir::task<bool> receiver = coir::spawn([ch] { return ch.recv().has_value(); });
      if (round % 2 == 0) until_blocked(receiver);
      coir::task<void> canceller = coir::spawn([&] { receiver.request_stop(); });
      if (ch.try_send(counted{round}) == coir::send_status::done) ++sent;
      canceller.get();
      try {
        received += receiver.get() ? 1 : 0;
      } catch (const coir::task_cancelled&) {
      }
      ASSERT_EQ(sent, received);
    }
  });
  EXPECT_EQ(counted::alive(), 0);
}

INSTANTIATE_TEST_SUITE_P(Processors, TimedChannel, coir_test::processors, coir_test::processors_name);

}  // namespace
