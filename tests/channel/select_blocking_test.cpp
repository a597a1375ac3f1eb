// select that waits: one case fires and the others leave no trace; selects meet each other, never themselves; and a
// select of one case, of several, and the direct operation follow the same rules.
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <coir/chan.hpp>
#include <coir/select.hpp>

#include "coir_test.hpp"
#include "values.hpp"

namespace {

using namespace std::chrono_literals;
using channel_test::counted;
using coir::chan;
using coir::make_chan;
using coir::on_recv;
using coir::on_send;
using coir::recv_status;
using coir::select;
using coir::send_status;
using coir_test::until_blocked;

class SelectBlocking : public coir_test::with_processors {};

TEST_P(SelectBlocking, ExactlyOneCaseFiresAndTheOthersLoseNothing) {
  run([] {
    const chan<counted> a = make_chan<counted>(), b = make_chan<counted>(), c = make_chan<counted>();
    counted mine{1};
    int handlers = 0;
    coir::task<std::size_t> waiter = coir::spawn([&] {
      return select(on_recv(a, [&](std::optional<counted>) { ++handlers; }),
                    on_send(b, std::move(mine), [&] { ++handlers; }), on_recv(c, [&](std::optional<counted> v) {
                      ++handlers;
                      EXPECT_EQ(v ? v->value() : 0, 9);
                    }));
    });
    until_blocked(waiter);
    c.send(counted{9});
    EXPECT_EQ(waiter.get(), 2U);
    EXPECT_EQ(handlers, 1);
    EXPECT_TRUE(mine.holds_value());
    // It waits in none of its queues any more.
    EXPECT_EQ(a.try_send(counted{2}), send_status::would_block);
    counted got{0};
    EXPECT_EQ(b.try_recv(got), recv_status::would_block);
  });
  EXPECT_EQ(counted::alive(), 0);
}

TEST_P(SelectBlocking, DuplicatesOfOneChannelTakeOneValue) {
  run([] {
    for (const std::size_t capacity : {std::size_t{0}, std::size_t{2}}) {
      const chan<int> ch = make_chan<int>(capacity);
      std::vector<int> seen;
      coir::task<void> waiter = coir::spawn([&] {
        auto note = [&](std::optional<int> v) { seen.push_back(*v); };
        for (int i = 0; i < 50; ++i) select(on_recv(ch, note), on_recv(ch, note), on_recv(ch, note));
      });
      for (int i = 0; i < 50; ++i) {
        if (i % 2 == 0) until_blocked(waiter);
        ch.send(i);
      }
      waiter.get();
      ASSERT_EQ(seen.size(), 50U);
      for (int i = 0; i < 50; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
      EXPECT_EQ(ch.len(), 0U);
    }
  });
}

TEST_P(SelectBlocking, DuplicateSendsOnOneChannelSendOneValue) {
  run([] {
    const chan<counted> ch = make_chan<counted>();
    counted one{1}, two{2};
    coir::task<std::size_t> waiter =
        coir::spawn([&] { return select(on_send(ch, std::move(one)), on_send(ch, std::move(two))); });
    until_blocked(waiter);
    const int got = ch.recv()->value();
    const std::size_t fired = waiter.get();
    EXPECT_EQ(got, fired == 0 ? 1 : 2);
    EXPECT_EQ(one.holds_value(), fired == 1);
    EXPECT_EQ(two.holds_value(), fired == 0);
    EXPECT_EQ(ch.try_recv(one), recv_status::would_block);
  });
  EXPECT_EQ(counted::alive(), 0);
}

TEST_P(SelectBlocking, SendAndReceiveOnOneChannelNeverPairWithThemselves) {
  run([] {
    const chan<int> ch = make_chan<int>();
    EXPECT_EQ(select(on_send(ch, 1), on_recv(ch), coir::otherwise()), 2U);
    EXPECT_EQ(select(on_send(ch, 1), on_recv(ch), coir::on_timeout(1ms)), 2U);
    std::optional<int> got;
    coir::task<std::size_t> both =
        coir::spawn([&] { return select(on_recv(ch, got), on_send(ch, 5), on_recv(ch, got)); });
    until_blocked(both);
    EXPECT_EQ(ch.recv(), 5);
    EXPECT_EQ(both.get(), 1U);
    both = coir::spawn([&] { return select(on_send(ch, 5), on_recv(ch, got)); });
    until_blocked(both);
    ch.send(6);
    EXPECT_EQ(both.get(), 1U);
    EXPECT_EQ(got, 6);
  });
}

TEST_P(SelectBlocking, TwoThatSendAndReceiveOnOneChannelPairWithEachOther) {
  run([] {
    const chan<int> ch = make_chan<int>();
    for (int i = 0; i < coir_test::scaled(5'000); ++i) {
      std::optional<int> got_a, got_b;
      coir::task<std::size_t> a = coir::spawn([&] { return select(on_send(ch, 1), on_recv(ch, got_a)); });
      coir::task<std::size_t> b = coir::spawn([&] { return select(on_recv(ch, got_b), on_send(ch, 2)); });
      const std::size_t fired_a = a.get(), fired_b = b.get();
      ASSERT_EQ(fired_a, fired_b);  // one sent and the other received
      ASSERT_EQ(got_a, fired_a == 1 ? std::optional<int>(2) : std::nullopt);
      ASSERT_EQ(got_b, fired_b == 0 ? std::optional<int>(1) : std::nullopt);
    }
  });
}

TEST_P(SelectBlocking, SelectSendMeetsSelectReceive) {
  run([] {
    const chan<int> ch = make_chan<int>(), never = make_chan<int>();
    const int n = coir_test::scaled(20'000);
    coir::task<void> sender = coir::spawn([&] {
      for (int i = 0; i < n; ++i) EXPECT_EQ(select(on_recv(never), on_send(ch, i)), 1U);
    });
    for (int i = 0; i < n; ++i) {
      std::optional<int> v;
      EXPECT_EQ(select(on_recv(ch, v), on_recv(never)), 0U);
      EXPECT_EQ(v, i);
    }
    sender.get();
  });
}

TEST_P(SelectBlocking, SelectsOfAThreadMeetThoseOfAFiber) {
  run([] {
    const chan<int> ch = make_chan<int>(), never = make_chan<int>();
    const int n = coir_test::scaled(5'000);
    std::thread sender([&] {
      for (int i = 0; i < n; ++i) select(on_recv(never), on_send(ch, i));
    });
    for (int i = 0; i < n; ++i) {
      std::optional<int> v;
      select(on_recv(ch, v), on_recv(never));
      EXPECT_EQ(v, i);
    }
    sender.join();
  });
}

TEST_P(SelectBlocking, CloseWakesABlockedSelect) {
  run([] {
    const chan<int> in = make_chan<int>(), out = make_chan<int>(), never = make_chan<int>();
    std::optional<int> v = 3;
    coir::task<std::size_t> receiver = coir::spawn([&] { return select(on_recv(never), on_recv(in, v)); });
    coir::task<std::size_t> sender = coir::spawn([&] { return select(on_send(out, 1), on_recv(never)); });
    until_blocked(receiver);
    until_blocked(sender);
    in.close();
    EXPECT_EQ(receiver.get(), 1U);
    EXPECT_EQ(v, std::nullopt);
    out.close();
    coir_test::expect_throw_message<coir::closed_channel>([&] { sender.get(); }, "send on closed channel");
  });
}

TEST_P(SelectBlocking, AReceiveFromAVoidChannelGivesItsHandlerABool) {
  run([] {
    const chan<void> ch = make_chan<void>(), never = make_chan<void>();
    std::optional<bool> by_handler;
    bool filled = false;
    coir::task<void> waiter = coir::spawn([&] {
      EXPECT_EQ(select(on_recv(never), on_recv(ch, [&](bool open) { by_handler = open; })), 1U);
      EXPECT_EQ(select(on_recv(ch, filled), on_recv(never)), 0U);
      EXPECT_EQ(by_handler, true);
      EXPECT_TRUE(filled);
      EXPECT_EQ(select(on_recv(never), on_recv(ch, [&](bool open) { by_handler = open; })), 1U);
      EXPECT_EQ(select(on_recv(ch, filled), on_recv(never)), 0U);
    });
    EXPECT_EQ(select(on_send(ch), on_recv(never)), 0U);
    EXPECT_EQ(select(on_recv(never), on_send(ch)), 1U);
    until_blocked(waiter);
    ch.close();
    waiter.get();
    EXPECT_EQ(by_handler, false);
    EXPECT_FALSE(filled);
  });
}

TEST_P(SelectBlocking, LaterWaitersBehindALosingCaseAreNotOrphaned) {
  run([] {
    const chan<int> a = make_chan<int>(), b = make_chan<int>();
    coir::task<std::size_t> first = coir::spawn([&] { return select(on_recv(a), on_recv(b)); });
    until_blocked(first);
    coir::task<std::optional<int>> behind = coir::spawn([&] { return b.recv(); });
    until_blocked(behind);
    a.send(1);  // the select loses its place in b, before `behind`
    b.send(2);
    EXPECT_EQ(first.get(), 0U);
    EXPECT_EQ(behind.get(), 2);
  });
}

TEST_P(SelectBlocking, EmptyOrAllNilBlocksUntilCancelled) {
  run([] {
    const chan<int> nil;
    std::vector<coir::task<void>> tasks;
    tasks.push_back(coir::spawn([] { select(); }));
    tasks.push_back(coir::spawn([&] { select(on_recv(nil)); }));
    tasks.push_back(coir::spawn([&] { select(on_recv(nil), on_send(nil, 1), on_recv(nil)); }));
    until_blocked(tasks);
    for (auto& t : tasks) {
      t.request_stop();
      EXPECT_THROW(t.get(), coir::task_cancelled);
    }
  });
}

TEST_P(SelectBlocking, EmptyOrAllNilCountsAsBlockedForDeadlockDetection) {
  coir_test::expect_throw_message<coir::deadlock>([this] { run([] { select(); }); },
                                                  "all fibers are asleep - deadlock!");
  coir_test::expect_throw_message<coir::deadlock>(
      [this] {
        run([] {
          const chan<int> nil, lonely = make_chan<int>();
          coir::go([=] { select(on_recv(nil), on_send(nil, 1)); });
          select(on_recv(lonely), on_send(lonely, 1));
        });
      },
      "all fibers are asleep - deadlock!");
}

TEST_P(SelectBlocking, ACancelledSelectHasNeitherSentNorReceived) {
  run([] {
    const chan<counted> a = make_chan<counted>(), b = make_chan<counted>();
    coir::task<bool> waiter = coir::spawn([&] {
      counted mine{1};
      EXPECT_THROW(select(on_recv(a), on_send(b, std::move(mine))), coir::cancelled);
      return mine.holds_value();
    });
    until_blocked(waiter);
    waiter.request_stop();
    EXPECT_TRUE(waiter.get());
    EXPECT_EQ(a.try_send(counted{2}), send_status::would_block);
  });
  EXPECT_EQ(counted::alive(), 0);
}

TEST_P(SelectBlocking, OverTheSameChannelsInOppositeOrderNeverDeadlocks) {
  run([] {
    const chan<int> a = make_chan<int>(), b = make_chan<int>();
    const int n = coir_test::scaled(20'000);
    std::vector<coir::task<void>> tasks;
    tasks.push_back(coir::spawn([&] {
      for (int i = 0; i < n; ++i) select(on_send(a, i), on_send(b, i));
    }));
    tasks.push_back(coir::spawn([&] {
      for (int i = 0; i < n; ++i) select(on_send(b, i), on_send(a, i));
    }));
    tasks.push_back(coir::spawn([&] {
      for (int i = 0; i < n; ++i) select(on_recv(a), on_recv(b));
    }));
    tasks.push_back(coir::spawn([&] {
      for (int i = 0; i < n; ++i) select(on_recv(b), on_recv(a));
    }));
    for (auto& t : tasks) t.get();
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, SelectBlocking, coir_test::processors, coir_test::processors_name);

}  // namespace
