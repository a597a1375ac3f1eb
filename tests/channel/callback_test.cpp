// Callbacks at channels: run in a fiber of their own when the operation is done.
#include <coir/async.hpp>
#include <coir/chan.hpp>
#include <coir/select.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "coir_test.hpp"
#include "values.hpp"

namespace {

using channel_test::counted;
using coir::chan;
using coir::make_chan;
using coir::send_status;
using coir_test::scaled;

class ChannelCallback : public coir_test::with_processors {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void TearDown() override { EXPECT_EQ(counted::alive(), 0) << "left behind, or destroyed twice"; }
};

TEST_P(ChannelCallback, ReceivesWhatIsThereOrComes) {
  run([] {
    const auto ch = make_chan<int>(1);
    const auto results = make_chan<int>();
    ch.send(1);
    ch.async_recv([=](std::optional<int> v) { results.send(*v); });  // is there
    EXPECT_EQ(results.recv(), 1);
    ch.async_recv([=](std::optional<int> v) { results.send(*v); });
    ch.send(2);
    EXPECT_EQ(results.recv(), 2);
  });
}

TEST_P(ChannelCallback, IsQueuedBeforeTheCallReturns) {
  run([] {
    const auto ch = make_chan<int>();
    const auto results = make_chan<std::pair<int, int>>(10);
    for (int i = 0; i < 10; ++i) ch.async_recv([=](std::optional<int> v) { results.send({i, *v}); });
    for (int i = 0; i < 10; ++i) EXPECT_EQ(ch.try_send(i), send_status::done);
    EXPECT_EQ(ch.try_send(10), send_status::would_block);
    for (int i = 0; i < 10; ++i) {
      const auto [who, what] = *results.recv();
      EXPECT_EQ(who, what);  // first come, first served
    }
  });
}

TEST_P(ChannelCallback, RunsInAFiberOfItsOwnThatMayBlock) {
  run([] {
    const auto ch = make_chan<int>(1), go_on = make_chan<int>(), results = make_chan<int>();
    ch.send(1);
    const coir::fiber_id mine = coir::this_fiber::get_id();
    ch.async_recv([=](std::optional<int> v) {
      EXPECT_NE(coir::this_fiber::get_id(), mine);
      results.send(*v + *go_on.recv());
    });
    go_on.send(10);
    EXPECT_EQ(results.recv(), 11);
  });
}

TEST_P(ChannelCallback, SendsAndTellsHowItWent) {
  run([] {
    const auto ch = make_chan<counted>();
    const auto results = make_chan<send_status>();
    ch.async_send(counted(3), [=](send_status s) { results.send(s); });
    EXPECT_EQ(ch.recv()->value(), 3);
    EXPECT_EQ(results.recv(), send_status::done);
    ch.async_send(counted(4), [=](send_status s) { results.send(s); });
    ch.async_send(counted(5), [=] { results.send(send_status::timed_out); });
    EXPECT_EQ(counted::alive(), 2);
    EXPECT_EQ(ch.recv()->value(), 4);
    EXPECT_EQ(results.recv(), send_status::done);
    EXPECT_EQ(ch.recv()->value(), 5);
    EXPECT_EQ(results.recv(), send_status::timed_out);  // the function without an argument has run
  });
}

TEST_P(ChannelCallback, CloseWakesThemAll) {
  std::atomic<int> nothing{0}, closed{0};
  run([&] {
    const auto in = make_chan<counted>(), out = make_chan<counted>();
    for (int i = 0; i < 100; ++i) {
      in.async_recv([&](std::optional<counted> v) { nothing += v ? 0 : 1; });
      out.async_send(counted(i), [&](send_status s) { closed += s == send_status::closed ? 1 : 0; });
    }
    EXPECT_EQ(counted::alive(), 100);
    in.close();
    out.close();
    in.async_recv([&](std::optional<counted> v) { nothing += v ? 0 : 1; });
    out.async_send(counted(0), [&](send_status s) { closed += s == send_status::closed ? 1 : 0; });
  });
  EXPECT_EQ(nothing, 101);
  EXPECT_EQ(closed, 101);
}

TEST_P(ChannelCallback, VoidChannels) {
  std::atomic<int> received{0}, closed{0}, sent{0};
  run([&] {
    const auto ch = make_chan<void>();
    ch.async_recv([&](bool ok) { ok ? ++received : ++closed; });
    ch.send();
    ch.async_send([&] { ++sent; });
    EXPECT_TRUE(ch.recv());
    ch.async_send([&](send_status s) { sent += s == send_status::done ? 1 : 0; });
    EXPECT_TRUE(ch.recv());
    ch.async_recv([&](bool ok) { ok ? ++received : ++closed; });
    ch.close();
  });
  EXPECT_EQ(received, 1);
  EXPECT_EQ(closed, 1);
  EXPECT_EQ(sent, 2);
}

TEST_P(ChannelCallback, ThreadsAndSelectsAndCoroutinesMeetThem) {
  const auto ch = make_chan<int>();
  const auto results = make_chan<int>(3);
  coir::runtime rt{opts()};
  rt.run([&] {
    for (int i = 0; i < 3; ++i) ch.async_recv([=](std::optional<int> v) { results.send(*v); });
  });
  ch.send(1);  // a thread
  rt.run([&] { coir::select(coir::on_send(ch, 2)); });
  rt.spawn([=]() -> coir::async<void> { co_await ch.async_send(3); }).get();
  int total = 0;
  for (int i = 0; i < 3; ++i) total += *results.recv();
  EXPECT_EQ(total, 6);
  rt.wait();
}

TEST_P(ChannelCallback, RunWaitsForAPendingOne) {
  std::atomic<bool> ran{false};
  const auto ch = make_chan<int>();
  std::thread outside;
  run([&] {
    ch.async_recv([&](std::optional<int>) { ran = true; });
    outside = std::thread([=] { ch.send(1); });
  });
  EXPECT_TRUE(ran);
  outside.join();
}

TEST_P(ChannelCallback, ADeadlockListsPendingOnesAndDropsThem) {
  std::string report;
  bool ran = false;
  try {
    run([&] {
      const auto ch = make_chan<counted>();
      ch.async_recv([&, held = counted(1)](std::optional<counted>) { ran = true; });
      chan<counted>().async_send(counted(2), [&] { ran = true; });
    });
    ADD_FAILURE() << "no deadlock";
  } catch (const coir::deadlock& d) {
    report = d.what();
  }
  EXPECT_FALSE(ran);
  EXPECT_NE(report.find("callback "), report.npos) << report;
  EXPECT_NE(report.find("left at "), report.npos) << report;
  EXPECT_NE(report.find("callback_test.cpp:"), report.npos) << report;
  EXPECT_NE(report.find(": chan receive 0x"), report.npos) << report;
  EXPECT_NE(report.find(": chan send (nil chan)"), report.npos) << report;
  EXPECT_EQ(std::count(report.begin(), report.end(), '\n'), 2) << report;
  EXPECT_EQ(counted::alive(), 0);
}

TEST_P(ChannelCallback, CancellingTheRuntimeDropsPendingOnesInSilence) {
  coir::runtime rt{opts()};
  bool ran = false;
  const auto ch = make_chan<counted>();
  rt.run([&] {
    for (int i = 0; i < 50; ++i) ch.async_recv([&, held = counted(1)](std::optional<counted>) { ran = true; });
  });
  EXPECT_EQ(counted::alive(), 50);
  rt.cancel();
  rt.wait();
  EXPECT_FALSE(ran);
  EXPECT_EQ(counted::alive(), 0);
  EXPECT_EQ(ch.try_send(counted(1)), send_status::would_block);
}

TEST_P(ChannelCallback, NeedsAFiberToKnowItsRuntime) {
  const auto ch = make_chan<counted>();
  EXPECT_THROW(ch.async_recv([](std::optional<counted>) {}), coir::not_in_runtime);
  EXPECT_THROW(ch.async_send(counted(1), [] {}), coir::not_in_runtime);
}

TEST_P(ChannelCallback, AClosedChannelEndsTheProcessIfNobodyIsTold) {
  const unsigned processors = GetParam();
  EXPECT_DEATH(
      {
        coir::options o;
        o.processors = processors;
        coir::run(o, [] {
          const auto ch = make_chan<int>();
          ch.async_send(1, [] {});
          ch.close();
        });
      },
      "an exception left a fiber: coir::closed_channel: send on closed channel");
}

TEST_P(ChannelCallback, ServesARandomMixOfPartners) {
  run([] {
    const int n = scaled(20'000);
    const auto ch = make_chan<int>(2);
    std::atomic<std::int64_t> received{0};
    std::atomic<int> sent{0};
    coir::task<void> senders = coir::spawn([&, ch] {
      for (int i = 1; i <= n; ++i) {
        if (i % 2 == 0)
          ch.async_send(i, [&] { ++sent; });
        else
          ch.send(i);
      }
    });
    coir::task<void> receivers = coir::spawn([&, ch] {
      for (int i = 1; i <= n; ++i) {
        if (i % 3 == 0)
          received += *ch.recv();
        else
          ch.async_recv([&](std::optional<int> v) { received += *v; });
        if (i % 64 == 0) coir::yield();
      }
    });
    senders.get();
    receivers.get();
    coir_test::until([&] { return sent == n / 2 && received == std::int64_t{n} * (n + 1) / 2; });
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, ChannelCallback, coir_test::processors, coir_test::processors_name);

}  // namespace
