// The nil channel: what a default-constructed handle is.
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include <coir/chan.hpp>
#include <coir/select.hpp>

#include "coir_test.hpp"
#include "values.hpp"

namespace {

using namespace std::chrono_literals;
using coir::chan;
using coir::make_chan;
using coir::recv_chan;
using coir::recv_status;
using coir::send_chan;
using coir::send_status;
using coir_test::expect_throw_message;
using coir_test::until_blocked;

class NilChannel : public coir_test::with_processors {};

TEST_P(NilChannel, IsNilHoldsNothingAndEqualsItself) {
  run([] {
    const chan<int> nil;
    EXPECT_TRUE(nil.is_nil());
    EXPECT_FALSE(nil);
    EXPECT_EQ(nil.len(), 0U);
    EXPECT_EQ(nil.cap(), 0U);
    EXPECT_TRUE(nil == chan<int>{});
    EXPECT_FALSE(nil == make_chan<int>());
    EXPECT_TRUE(send_chan<int>{}.is_nil());
    EXPECT_TRUE(recv_chan<int>{}.is_nil());
    EXPECT_TRUE(send_chan<int>{nil}.is_nil());
    EXPECT_TRUE(recv_chan<void>{chan<void>{}}.is_nil());
  });
}

TEST_P(NilChannel, TryFormsSayWouldBlock) {
  run([] {
    const chan<channel_test::counted> nil;
    channel_test::counted value{1};
    EXPECT_EQ(nil.try_send(std::move(value)), send_status::would_block);
    EXPECT_TRUE(value.holds_value());
    EXPECT_EQ(nil.try_recv(value), recv_status::would_block);
    EXPECT_EQ(value.value(), 1);
    EXPECT_EQ(chan<void>{}.try_send(), send_status::would_block);
    EXPECT_EQ(chan<void>{}.try_recv(), recv_status::would_block);
  });
}

TEST_P(NilChannel, TimedFormsTimeOut) {
  run([] {
    const chan<int> nil;
    int value = 1;
    for (const std::chrono::nanoseconds d : {-1ns, 0ns, 1ns, std::chrono::nanoseconds(2ms)}) {
      const auto start = std::chrono::steady_clock::now();
      EXPECT_FALSE(nil.send_for(value, d));
      EXPECT_EQ(nil.recv_for(value, d), recv_status::timed_out);
      EXPECT_GE(std::chrono::steady_clock::now() - start, d);
    }
    EXPECT_FALSE(chan<void>{}.send_for(1ms));
    EXPECT_EQ(chan<void>{}.recv_for(1ms), recv_status::timed_out);
    std::thread([&] { EXPECT_EQ(nil.recv_for(value, 1ms), recv_status::timed_out); }).join();
  });
}

TEST_P(NilChannel, SendAndReceiveBlockUntilCancelled) {
  run([] {
    coir::task<void> sender = coir::spawn([] { chan<int>{}.send(1); });
    coir::task<std::optional<int>> receiver = coir::spawn([] { return chan<int>{}.recv(); });
    coir::task<void> loop = coir::spawn([] {
      for ([[maybe_unused]] int v : chan<int>{}) ADD_FAILURE() << "received from nil";
    });
    until_blocked(sender);
    until_blocked(receiver);
    until_blocked(loop);
    sender.request_stop();
    receiver.request_stop();
    loop.request_stop();
    EXPECT_THROW(sender.get(), coir::task_cancelled);
    EXPECT_THROW(receiver.get(), coir::task_cancelled);
    EXPECT_THROW(loop.get(), coir::task_cancelled);
  });
}

TEST_P(NilChannel, SendAndReceiveCountAsBlockedForDeadlockDetection) {
  expect_throw_message<coir::deadlock>([this] { run([] { chan<int>{}.recv(); }); },
                                       "all fibers are asleep - deadlock!");
  expect_throw_message<coir::deadlock>([this] { run([] { chan<int>{}.send(1); }); },
                                       "all fibers are asleep - deadlock!");
}

TEST_P(NilChannel, CloseFailsByName) {
  run([] {
    expect_throw_message<coir::closed_channel>([] { chan<int>{}.close(); }, "close of nil channel");
    expect_throw_message<coir::closed_channel>([] { send_chan<int>{}.close(); }, "close of nil channel");
    expect_throw_message<coir::closed_channel>([] { chan<void>{}.close(); }, "close of nil channel");
  });
}

TEST_P(NilChannel, IsNeverReadyInSelect) {
  run([] {
    const chan<int> nil, ready = make_chan<int>(1);
    for (int i = 0; i < 200; ++i) {
      ready.send(i);
      EXPECT_EQ(coir::select(coir::on_recv(nil), coir::on_send(nil, 1), coir::on_recv(ready)), 2U);
    }
    EXPECT_EQ(coir::select(coir::on_recv(nil), coir::on_send(nil, 1), coir::otherwise()), 2U);
    EXPECT_EQ(coir::select(coir::on_recv(nil), coir::on_send(nil, 1), coir::on_timeout(1ms)), 2U);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, NilChannel, coir_test::processors, coir_test::processors_name);

}  // namespace
