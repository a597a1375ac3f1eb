// otherwise: never blocks, and is taken only if at one instant no other case could proceed.
#include <cstddef>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include <coir/chan.hpp>
#include <coir/select.hpp>

#include "coir_test.hpp"
#include "values.hpp"

namespace {

using channel_test::counted;
using coir::chan;
using coir::make_chan;
using coir::on_recv;
using coir::on_send;
using coir::otherwise;
using coir::select;
using coir::select_set;
using coir_test::until_blocked;

class SelectOtherwise : public coir_test::with_processors {};

TEST_P(SelectOtherwise, IsTakenWhenNothingIsReady) {
  run([] {
    const chan<int> empty = make_chan<int>(1), full = make_chan<int>(1), unbuffered = make_chan<int>();
    full.send(1);
    bool ran = false;
    EXPECT_EQ(select(on_recv(empty), on_send(full, 1), on_recv(unbuffered), on_send(unbuffered, 1),
                     otherwise([&] { ran = true; })),
              4U);
    EXPECT_TRUE(ran);
    EXPECT_EQ(select(otherwise()), 0U);
    EXPECT_EQ(select(otherwise(), on_recv(empty)), 0U);
    EXPECT_EQ(full.len(), 1U);
    select_set set;
    set.recv(empty);
    set.otherwise();
    EXPECT_EQ(set.wait(), 1U);
  });
}

TEST_P(SelectOtherwise, IsNotTakenWhenACaseIsReady) {
  run([] {
    const chan<int> holds_one = make_chan<int>(2);
    for (int i = 0; i < 1000; ++i) {
      holds_one.send(i);
      EXPECT_EQ(select(otherwise(), on_recv(holds_one)), 1U);
      EXPECT_EQ(select(on_send(holds_one, i), otherwise()), 0U);
      EXPECT_EQ(select(on_recv(holds_one), otherwise()), 0U);
    }
    std::stop_source source;
    source.request_stop();
    EXPECT_EQ(select(coir::on_stop(source.get_token()), otherwise()), 0U);
  });
}

TEST_P(SelectOtherwise, IsNotTakenWhenAPeerIsParked) {
  run([] {
    const chan<int> ch = make_chan<int>();
    for (int i = 0; i < coir_test::scaled(1000); ++i) {
      coir::task<std::optional<int>> receiver = coir::spawn([ch] { return ch.recv(); });
      until_blocked(receiver);
      ASSERT_EQ(select(on_send(ch, i), otherwise()), 0U);
      ASSERT_EQ(receiver.get(), i);
      coir::task<std::size_t> sender = coir::spawn([ch] { return select(on_send(ch, 1), on_recv(chan<int>{})); });
      until_blocked(sender);
      ASSERT_EQ(select(on_recv(ch), otherwise()), 0U);
      sender.get();
    }
  });
}

TEST_P(SelectOtherwise, MovesNoValueWhenTaken) {
  run([] {
    const chan<counted> full = make_chan<counted>(1);
    full.send(counted{1});
    counted mine{2};
    EXPECT_EQ(select(on_send(full, std::move(mine)), otherwise()), 1U);
    EXPECT_TRUE(mine.holds_value());
  });
  EXPECT_EQ(counted::alive(), 0);
}

// A token wanders between two places and always reaches the next before it leaves the last: at each instant one of the
// two receives could proceed, though looking at one channel after the other may find both empty.
TEST_P(SelectOtherwise, IsNeverTakenWhileOneOfTwoChannelsAlwaysHoldsAValue) {
  run([] {
    const int rounds = coir_test::scaled(20'000);
    int otherwises = 0;
    for (int round = 0; round < rounds; ++round) {
      const chan<int> a = make_chan<int>(1), b = make_chan<int>(1);
      a.send(1);
      coir::task<void> mover = coir::spawn([&] {
        b.send(1);
        int token = 0;
        a.try_recv(token);
      });
      if (select(on_recv(a), on_recv(b), otherwise()) == 2) ++otherwises;
      mover.get();
    }
    EXPECT_EQ(otherwises, 0);
  });
}

TEST_P(SelectOtherwise, IsNeverTakenWhileAValueOrTheEndIsAlwaysThere) {
  run([] {
    const int rounds = coir_test::scaled(20'000);
    int otherwises = 0;
    for (int round = 0; round < rounds; ++round) {
      const chan<int> a = make_chan<int>(1), b = make_chan<int>();
      a.send(1);
      coir::task<void> mover = coir::spawn([&] {
        b.close();
        int token = 0;
        a.try_recv(token);
      });
      if (select(on_recv(a), on_recv(b), otherwise()) == 2) ++otherwises;
      mover.get();
    }
    EXPECT_EQ(otherwises, 0);
  });
}

TEST_P(SelectOtherwise, IsNeverTakenWhileOneOfTwoChannelsAlwaysHasRoom) {
  run([] {
    const int rounds = coir_test::scaled(20'000);
    int otherwises = 0;
    for (int round = 0; round < rounds; ++round) {
      const chan<int> a = make_chan<int>(1), b = make_chan<int>(1);
      b.send(1);
      coir::task<void> mover = coir::spawn([&] {
        int token = 0;
        b.try_recv(token);
        a.try_send(1);
      });
      if (select(on_send(a, 2), on_send(b, 2), otherwise()) == 2) ++otherwises;
      mover.get();
    }
    EXPECT_EQ(otherwises, 0);
  });
}

TEST_P(SelectOtherwise, IsNeverTakenWhileAThreadMovesTheValue) {
  run([] {
    const int rounds = coir_test::scaled(50'000);
    int otherwises = 0;
    const chan<int> a = make_chan<int>(1), b = make_chan<int>(1);
    // Each round the mover takes its value from a to b, and the watcher takes one value from either.
    const chan<void> begin = make_chan<void>(1), moved = make_chan<void>(1);
    std::thread mover([&] {
      while (begin.recv()) {
        int token = 0;
        b.send(1);
        a.try_recv(token);
        moved.send();
      }
    });
    for (int i = 0; i < rounds; ++i) {
      a.send(1);
      begin.send();
      if (select(on_recv(a), on_recv(b), otherwise()) == 2) ++otherwises;
      moved.recv();
      int left = 0;
      b.try_recv(left);
      a.try_recv(left);
    }
    begin.close();
    mover.join();
    EXPECT_EQ(otherwises, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, SelectOtherwise, coir_test::processors, coir_test::processors_name);

}  // namespace
