// Coroutines at channels: they meet fibers, threads, selects and each other.
#include <coir/async.hpp>
#include <coir/chan.hpp>
#include <coir/select.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "coir_test.hpp"
#include "grant_race.hpp"
#include "values.hpp"

namespace {

using namespace std::chrono_literals;
using channel_test::counted;
using coir::async;
using coir::chan;
using coir::make_chan;
using coir_test::scaled;
using coir_test::until_blocked;

class ChannelAsync : public coir_test::with_processors {
 protected:
  void TearDown() override { EXPECT_EQ(counted::alive(), 0) << "left behind, or destroyed twice"; }
};

async<std::int64_t> sum(coir::recv_chan<int> in) {
  std::int64_t total = 0;
  while (const std::optional<int> v = co_await in.async_recv()) total += *v;
  co_return total;
}

async<void> numbers(coir::send_chan<int> out, int first, int last) {
  for (int i = first; i <= last; ++i) co_await out.async_send(i);
}

TEST_P(ChannelAsync, ReceivesFromAFiberInOrder) {
  for (const std::size_t capacity : {0U, 1U, 3U}) {
    run([&] {
      const auto ch = make_chan<int>(capacity);
      coir::task<std::vector<int>> receiver = coir::spawn([ch]() -> async<std::vector<int>> {
        std::vector<int> all;
        while (const auto v = co_await ch.async_recv()) all.push_back(*v);
        co_return all;
      });
      for (int i = 0; i < 100; ++i) ch.send(i);
      ch.close();
      const std::vector<int> all = receiver.get();
      ASSERT_EQ(all.size(), 100U);
      for (int i = 0; i < 100; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)], i);
    });
  }
}

TEST_P(ChannelAsync, SendsToAFiberInOrder) {
  for (const std::size_t capacity : {0U, 1U, 3U}) {
    run([&] {
      const auto ch = make_chan<int>(capacity);
      coir::task<void> sender = coir::spawn(numbers(ch, 0, 99));
      for (int i = 0; i < 100; ++i) EXPECT_EQ(ch.recv(), i);
      sender.get();
    });
  }
}

TEST_P(ChannelAsync, CoroutinesMeetEachOther) {
  for (const std::size_t capacity : {0U, 1U, 16U}) {
    run([&] {
      const auto ch = make_chan<int>(capacity);
      coir::task<std::int64_t> receiver = coir::spawn(sum(ch));
      coir::task<void> a = coir::spawn(numbers(ch, 1, 500)), b = coir::spawn(numbers(ch, 501, 1000));
      a.get();
      b.get();
      ch.close();
      EXPECT_EQ(receiver.get(), 500'500);
    });
  }
}

TEST_P(ChannelAsync, ThreadsMeetCoroutines) {
  coir::runtime rt{opts()};
  for (const std::size_t capacity : {0U, 2U}) {
    const auto there = make_chan<int>(capacity);
    const auto back = make_chan<int>(capacity);
    coir::task<void> echo = rt.spawn([there, back]() -> async<void> {
      while (const auto v = co_await there.async_recv()) co_await back.async_send(*v + 1);
    });
    for (int i = 0; i < scaled(1'000); ++i) {
      there.send(i);
      ASSERT_EQ(back.recv(), i + 1);
    }
    there.close();
    echo.get();
  }
}

TEST_P(ChannelAsync, SelectsMeetCoroutines) {
  run([] {
    const auto in = make_chan<int>(), out = make_chan<int>();
    const int n = scaled(2'000);
    coir::task<void> sender = coir::spawn(numbers(in, 1, n));
    coir::task<std::int64_t> receiver = coir::spawn(sum(out));
    std::int64_t received = 0;
    for (int i = 1, sent = 1; i <= n || sent <= n;) {
      coir::select(coir::on_recv(i <= n ? in : chan<int>(),
                                 [&](std::optional<int> v) {
                                   received += *v;
                                   ++i;
                                 }),
                   coir::on_send(sent <= n ? out : chan<int>(), sent, [&] { ++sent; }));
    }
    out.close();
    sender.get();
    const std::int64_t all = std::int64_t{n} * (n + 1) / 2;
    EXPECT_EQ(received, all);
    EXPECT_EQ(receiver.get(), all);
  });
}

TEST_P(ChannelAsync, VoidAndMoveOnlyAndOversizedValues) {
  run([] {
    const auto events = make_chan<void>();
    const auto boxes = make_chan<std::unique_ptr<int>>();
    const auto pages = make_chan<channel_test::page>(1);
    coir::task<int> t = coir::spawn([=]() -> async<int> {
      int seen = 0;
      while (co_await events.async_recv()) ++seen;
      std::unique_ptr<int> box = *co_await boxes.async_recv();
      co_await boxes.async_send(std::move(box));
      co_await pages.async_send(channel_test::page::of(3));
      co_return seen;
    });
    for (int i = 0; i < 5; ++i) events.send();
    events.close();
    boxes.send(std::make_unique<int>(4));
    EXPECT_EQ(**boxes.recv(), 4);
    EXPECT_EQ(*pages.recv(), channel_test::page::of(3));
    EXPECT_EQ(t.get(), 5);
    coir::task<void> sender = coir::spawn([=]() -> async<void> { co_await make_chan<void>(1).async_send(); });
    sender.get();
  });
}

TEST_P(ChannelAsync, CloseWakesReceiversWithNothingAndSendersWithClosedChannel) {
  run([] {
    const auto empty = make_chan<int>();
    const auto full = make_chan<counted>();
    std::vector<coir::task<bool>> receivers, senders;
    for (int i = 0; i < 100; ++i) {
      receivers.push_back(coir::spawn([=]() -> async<bool> { co_return (co_await empty.async_recv()).has_value(); }));
      senders.push_back(coir::spawn([=]() -> async<bool> {
        try {
          co_await full.async_send(counted(i));
        } catch (const coir::closed_channel&) {
          co_return true;
        }
        co_return false;
      }));
    }
    until_blocked(receivers);
    until_blocked(senders);
    EXPECT_EQ(counted::alive(), 100);
    empty.close();
    full.close();
    for (auto& t : receivers) EXPECT_FALSE(t.get());
    for (auto& t : senders) EXPECT_TRUE(t.get());
    EXPECT_EQ(counted::alive(), 0);
    EXPECT_THROW(coir::spawn(numbers(empty, 1, 1)).get(), coir::closed_channel);
    EXPECT_EQ(coir::spawn(sum(empty)).get(), 0);
  });
}

TEST_P(ChannelAsync, WaitersAreServedInTheOrderTheyCameWhateverTheyAre) {
  run([] {
    const auto ch = make_chan<int>();
    std::vector<int> got(6, -1);
    std::vector<coir::task<void>> all;
    for (std::size_t i = 0; i < 6; ++i) {
      if (i % 2 == 0)
        all.push_back(coir::spawn([&got, ch, i]() -> async<void> { got[i] = *co_await ch.async_recv(); }));
      else
        all.push_back(coir::spawn([&got, ch, i] { got[i] = *ch.recv(); }));
      until_blocked(all.back());
    }
    for (int i = 0; i < 6; ++i) ch.send(i);
    for (auto& t : all) t.get();
    EXPECT_EQ(got, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  });
}

TEST_P(ChannelAsync, ACancelledOneThrowsAndLetsThoseBehindItThrough) {
  run([] {
    const auto ch = make_chan<counted>();
    coir::task<int> first = coir::spawn([=]() -> async<int> { co_return (co_await ch.async_recv())->value(); });
    until_blocked(first);
    coir::task<int> second = coir::spawn([=]() -> async<int> { co_return (co_await ch.async_recv())->value(); });
    until_blocked(second);
    first.request_stop();
    EXPECT_THROW(first.get(), coir::task_cancelled);
    ch.send(counted(5));
    EXPECT_EQ(second.get(), 5);
    coir::task<void> sender = coir::spawn([=]() -> async<void> { co_await ch.async_send(counted(6)); });
    until_blocked(sender);
    sender.request_stop();
    EXPECT_THROW(sender.get(), coir::task_cancelled);
    EXPECT_EQ(ch.try_send(counted(7)), coir::send_status::would_block);
  });
}

TEST_P(ChannelAsync, NilBlocksUntilCancelled) {
  run([] {
    const chan<int> nil;
    coir::task<void> a = coir::spawn([=]() -> async<void> { co_await nil.async_recv(); });
    coir::task<void> b = coir::spawn([=]() -> async<void> { co_await nil.async_send(1); });
    until_blocked(a);
    until_blocked(b);
    a.request_stop();
    b.request_stop();
    EXPECT_THROW(a.get(), coir::task_cancelled);
    EXPECT_THROW(b.get(), coir::task_cancelled);
  });
}

async<void> receive_twice(chan<counted> ch, std::atomic<int>& got) {
  if (const auto v = co_await ch.async_recv()) got = 1;
  co_await ch.async_recv();
}

TEST_P(ChannelAsync, AGrantThatRacesACancellationIsNotLost) {
  run([] { channel_test::race_grants_with_cancellations(receive_twice); });
}

TEST_P(ChannelAsync, ACloseThatRacesCancellationsWakesEachOnce) {
  run([] {
    for (int round = 0; round < scaled(200); ++round) {
      const auto ch = make_chan<int>();
      std::atomic<int> closed{0}, cancelled{0};
      std::vector<coir::task<void>> all;
      for (int i = 0; i < 20; ++i) {
        all.push_back(coir::spawn([ch, &closed, &cancelled]() -> async<void> {
          try {
            co_await ch.async_recv();
            ++closed;
          } catch (const coir::cancelled&) {
            ++cancelled;
          }
        }));
      }
      if (round % 2 == 0) until_blocked(all);
      coir::task<void> closer = coir::spawn([ch] { ch.close(); });
      for (auto& t : all) t.request_stop();
      for (auto& t : all) t.get();
      closer.get();
      EXPECT_EQ(closed + cancelled, 20);
    }
  });
}

TEST_P(ChannelAsync, FourByFourLoseAndDuplicateNothing) {
  for (const std::size_t capacity : {0U, 1U, 128U}) {
    run([&] {
      const auto ch = make_chan<int>(capacity);
      static constexpr int each = scaled(50'000);
      std::vector<coir::task<void>> senders;
      std::vector<coir::task<std::int64_t>> receivers;
      for (int i = 0; i < 2; ++i) {
        receivers.push_back(coir::spawn(sum(ch)));
        receivers.push_back(coir::spawn([ch] {
          std::int64_t total = 0;
          for (const int v : ch) total += v;
          return total;
        }));
        senders.push_back(coir::spawn(numbers(ch, 1, each)));
        senders.push_back(coir::spawn([ch] {
          for (int v = 1; v <= each; ++v) ch.send(v);
        }));
      }
      for (auto& t : senders) t.get();
      ch.close();
      std::int64_t total = 0;
      for (auto& t : receivers) total += t.get();
      EXPECT_EQ(total, 4 * (std::int64_t{each} * (each + 1) / 2));
    });
  }
}

TEST_P(ChannelAsync, TheLastHandleMayGoAsSoonAsTheValueHasArrived) {
  run([] {
    for (int i = 0; i < scaled(20'000); ++i) {
      auto ch = std::make_unique<chan<int>>(make_chan<int>());
      coir::task<int> t = coir::spawn([](coir::recv_chan<int> in) -> async<int> {
        const std::optional<int> v = co_await in.async_recv();
        in = {};
        co_return *v;
      }(*ch));
      ch->send(i);
      ch.reset();
      ASSERT_EQ(t.get(), i);
    }
  });
}

TEST_P(ChannelAsync, ADeadlockListsCoroutinesAndUnwindsThem) {
  std::string report;
  coir::fiber_id id;
  int line = 0;
  int unwound = 0;
  try {
    run([&] {
      const auto ch = make_chan<counted>();
      coir::task<void> t = coir::spawn([&, ch]() -> async<void> {
        coir::this_fiber::set_name("poor thing");
        const counted held(1);
        try {
          co_await ch.async_recv();
        } catch (const coir::cancelled&) {
          ++unwound;
          throw;
        }
      });
      line = __LINE__;
      id = t.id();
      coir::go([ch]() -> async<void> { co_await ch.async_recv(); });
      t.get();
    });
    ADD_FAILURE() << "no deadlock";
  } catch (const coir::deadlock& d) {
    report = d.what();
  }
  EXPECT_EQ(unwound, 1);
  EXPECT_NE(report.find("async " + std::to_string(id.number()) + " \"poor thing\", spawned at "), report.npos)
      << report;
  EXPECT_NE(report.find("async_test.cpp:"), report.npos) << report;
  EXPECT_NE(report.find(": chan receive 0x"), report.npos) << report;
  EXPECT_EQ(std::count(report.begin(), report.end(), '\n'), 3) << report;
  EXPECT_NE(line, 0);
}

TEST_P(ChannelAsync, ADeadlockUnwindsThemBeforeWhoSpawnedThem) {
  std::atomic<int> ended{0};
  EXPECT_THROW(run([&] {
                 struct at_end {
                   std::atomic<int>& ended;
                   ~at_end() { EXPECT_EQ(ended, 3); }
                 } const last{ended};
                 const auto ch = make_chan<int>();
                 for (int i = 0; i < 3; ++i) {
                   coir::go([&, ch]() -> async<void> {
                     try {
                       co_await ch.async_recv();
                     } catch (const coir::cancelled&) {
                       ++ended;
                       throw;
                     }
                   });
                 }
                 ch.async_recv([held = counted(1)](std::optional<int>) {});
                 chan<int>().recv();
               }),
               coir::deadlock);
  EXPECT_EQ(counted::alive(), 0);
}

TEST_P(ChannelAsync, CancellingTheRuntimeEndsThemAll) {
  coir::runtime rt{opts()};
  const auto ch = make_chan<int>();
  std::atomic<int> cancelled{0};
  for (int i = 0; i < 100; ++i) {
    rt.go([ch, &cancelled]() -> async<void> {
      try {
        co_await ch.async_recv();
      } catch (const coir::cancelled&) {
        ++cancelled;
        throw;
      }
    });
  }
  rt.cancel();
  rt.wait();
  EXPECT_EQ(cancelled, 100);
}

TEST_P(ChannelAsync, UncancellableHoldsAcrossAwaits) {
  run([] {
    const auto ch = make_chan<int>();
    coir::task<int> t = coir::spawn([ch]() -> async<int> {
      int total = 0;
      {
        const coir::uncancellable guard;
        total += *co_await ch.async_recv();
        total += *co_await ch.async_recv();
      }
      try {
        co_await ch.async_recv();
      } catch (const coir::cancelled&) {
        total += 100;
      }
      co_return total;
    });
    until_blocked(t);
    t.request_stop();
    ch.send(1);
    until_blocked(t);
    ch.send(2);
    EXPECT_EQ(t.get(), 103);
  });
}

TEST_P(ChannelAsync, AStopIsSeenByTheTokenAndByACallThatBlocks) {
  run([] {
    const auto ch = make_chan<int>();
    std::stop_token token;
    coir::task<void> t = coir::spawn([ch, &token]() -> async<void> {
      token = coir::this_fiber::stop_token();
      bool cancelled = false;
      try {
        co_await ch.async_recv();
      } catch (const coir::cancelled&) {
        cancelled = true;
      }
      EXPECT_TRUE(cancelled);
      EXPECT_TRUE(token.stop_requested());
      EXPECT_THROW(ch.recv(), coir::cancelled);  // blocking, in the carrier
    });
    until_blocked(t);
    t.request_stop();
    t.get();
    EXPECT_TRUE(token.stop_requested());
    coir::task<void> blocked = coir::spawn([ch]() -> async<void> {
      ch.recv();
      co_return;
    });
    until_blocked(blocked);
    blocked.request_stop();
    EXPECT_THROW(blocked.get(), coir::task_cancelled);
  });
}

// Kept in a variable an awaiter could be awaited again; it serves once, whether it had to wait or not.
TEST_P(ChannelAsync, AnOperationThatIsAwaitedAgainIsALogicError) {
  for (const bool waits : {false, true}) {
    run([waits] {
      const auto ch = make_chan<int>(2);
      coir::task<void> t = coir::spawn([ch]() -> async<void> {
        auto receive = ch.async_recv();
        const std::optional<int> first = co_await receive;
        EXPECT_EQ(first, 1);
        bool refused = false;
        try {
          const std::optional<int> again = co_await receive;
          EXPECT_EQ(again, std::nullopt);
        } catch (const std::logic_error&) {
          refused = true;
        }
        EXPECT_TRUE(refused);
      });
      if (waits) until_blocked(t);
      ch.send(1);
      ch.send(2);
      t.get();
      EXPECT_EQ(ch.recv(), 2);
      if (waits) {
        ch.send(3);
        ch.send(4);
      }
      t = coir::spawn([ch]() -> async<void> {
        auto send = ch.async_send(5);
        co_await send;
        bool refused = false;
        try {
          co_await send;
        } catch (const std::logic_error&) {
          refused = true;
        }
        EXPECT_TRUE(refused);
      });
      if (waits) {
        until_blocked(t);
        EXPECT_EQ(ch.recv(), 3);
        EXPECT_EQ(ch.recv(), 4);
      }
      t.get();
      EXPECT_EQ(ch.recv(), 5);
      EXPECT_EQ(ch.len(), 0U);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Processors, ChannelAsync, coir_test::processors, coir_test::processors_name);

}  // namespace
