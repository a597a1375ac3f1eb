// select_set: cases put together at run time, waited for again and again.
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <type_traits>
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
using coir::select_set;
using coir_test::until_blocked;

static_assert(std::is_nothrow_move_constructible_v<select_set> && std::is_nothrow_move_assignable_v<select_set>);
static_assert(!std::is_copy_constructible_v<select_set> && !std::is_copy_assignable_v<select_set>);

class SelectSet : public coir_test::with_processors {};

TEST_P(SelectSet, ReturnsTheIndexOfTheCaseInTheOrderOfAddingAndRunsItsHandler) {
  run([] {
    std::vector<chan<int>> channels;
    select_set set;
    std::vector<int> seen;
    for (int i = 0; i < 100; ++i) {
      channels.push_back(make_chan<int>(1));
      set.recv(channels.back(), [&seen, i](std::optional<int> v) {
        seen.push_back(i);
        EXPECT_EQ(v, i * 10);
      });
    }
    for (int i = 99; i >= 0; --i) {
      channels[static_cast<std::size_t>(i)].send(i * 10);
      EXPECT_EQ(set.wait(), static_cast<std::size_t>(i));
    }
    EXPECT_EQ(seen.size(), 100U);
    EXPECT_EQ(seen.front(), 99);
  });
}

TEST_P(SelectSet, CanBeWaitedForAgainAndAgainBlockingOrNot) {
  run([] {
    const chan<int> in = make_chan<int>(), out = make_chan<int>();
    coir::task<int> server = coir::spawn([&] {
      int served = 0;
      bool open = true;
      select_set set;
      set.recv(in, [&](std::optional<int> v) { v ? ++served : open = false; });
      set.send(out, 7, [&] { ++served; });
      while (open) set.wait();
      return served;
    });
    for (int i = 0; i < coir_test::scaled(2'000); ++i) {
      if (i % 3 == 0) until_blocked(server);
      in.send(i);
      EXPECT_EQ(out.recv(), 7);
    }
    in.close();
    EXPECT_EQ(server.get(), 2 * coir_test::scaled(2'000));
  });
}

TEST_P(SelectSet, SendsACopyOfACopyableValueEachTime) {
  run([] {
    const chan<std::shared_ptr<int>> ch = make_chan<std::shared_ptr<int>>(3);
    auto value = std::make_shared<int>(4);
    {
      select_set set;
      set.send(ch, value);
      for (int i = 0; i < 3; ++i) EXPECT_EQ(set.wait(), 0U);
      EXPECT_GE(value.use_count(), 5);  // three in the channel, one at least in the set
    }
    EXPECT_EQ(value.use_count(), 4);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(ch.recv(), value);
    EXPECT_EQ(value.use_count(), 1);
  });
}

TEST_P(SelectSet, SpendsAMoveOnlyValueOnceAndIsThenNeverReady) {
  run([] {
    const chan<counted> ch = make_chan<counted>(3);
    const chan<void> other = make_chan<void>();
    {
      select_set set;
      set.send(ch, counted{1});
      set.recv(other);
      set.otherwise();
      EXPECT_EQ(counted::alive(), 1);
      EXPECT_EQ(set.wait(), 0U);
      for (int i = 0; i < 20; ++i) EXPECT_EQ(set.wait(), 2U);
      EXPECT_EQ(ch.len(), 1U);
    }
    EXPECT_EQ(counted::alive(), 1);
    EXPECT_EQ(ch.recv()->value(), 1);
    {
      select_set unspent;
      unspent.send(chan<counted>{}, counted{2});
      unspent.timeout(1ms);
      EXPECT_EQ(unspent.wait(), 1U);
      EXPECT_EQ(counted::alive(), 1);
    }
  });
  EXPECT_EQ(counted::alive(), 0);
}

TEST_P(SelectSet, KeepsItsChannelsAlive) {
  run([] {
    select_set set;
    {
      const chan<int> ch = make_chan<int>(1);
      ch.send(5);
      set.recv(ch, [](std::optional<int> v) { EXPECT_EQ(v, 5); });
    }
    EXPECT_EQ(set.wait(), 0U);
  });
}

TEST_P(SelectSet, CanBeMoved) {
  run([] {
    const chan<int> ch = make_chan<int>(2);
    int sum = 0;
    select_set first;
    first.recv(ch, [&](std::optional<int> v) { sum += *v; });
    ch.send(1);
    ch.send(2);
    first.wait();
    select_set second = std::move(first);
    second.wait();
    EXPECT_EQ(sum, 3);
    select_set third;
    third = std::move(second);
    third.otherwise();
    EXPECT_EQ(third.wait(), 1U);
  });
}

TEST_P(SelectSet, TimeoutCountsFromEachWait) {
  run([] {
    select_set set;
    set.recv(make_chan<int>());
    set.timeout(2ms);
    for (int i = 0; i < 3; ++i) {
      const auto start = std::chrono::steady_clock::now();
      EXPECT_EQ(set.wait(), 1U);
      EXPECT_GE(std::chrono::steady_clock::now() - start, 2ms);
    }
  });
}

TEST_P(SelectSet, HandlersAndVoidChannelsAreOptionalAndUniform) {
  run([] {
    const chan<void> ch = make_chan<void>(1);
    std::optional<bool> got;
    select_set set;
    set.send(ch);
    set.recv(ch, [&](bool open) { got = open; });
    EXPECT_EQ(set.wait(), 0U);
    EXPECT_EQ(set.wait(), 1U);
    EXPECT_EQ(got, true);
    ch.close();
    int closed = 0, received = 0;
    for (int i = 0; i < 100; ++i) {
      try {
        received += set.wait() == 1 ? 1 : 0;
      } catch (const coir::closed_channel&) {
        ++closed;
      }
    }
    EXPECT_EQ(got, false);
    EXPECT_EQ(closed + received, 100);
    EXPECT_GT(closed, 0);
    EXPECT_GT(received, 0);
  });
}

TEST_P(SelectSet, AThrowingHandlerPassesThroughAndTheSetGoesOn) {
  run([] {
    const chan<int> ch = make_chan<int>(2);
    ch.send(1);
    ch.send(2);
    select_set set;
    set.recv(ch, [](std::optional<int> v) {
      if (*v == 1) throw std::runtime_error("one");
    });
    EXPECT_THROW(set.wait(), std::runtime_error);
    EXPECT_EQ(ch.len(), 1U);  // the case had taken effect
    EXPECT_EQ(set.wait(), 0U);
  });
}

TEST_P(SelectSet, EmptyBlocksUntilCancelled) {
  run([] {
    coir::task<void> waiter = coir::spawn([] {
      select_set set;
      set.wait();
    });
    until_blocked(waiter);
    waiter.request_stop();
    EXPECT_THROW(waiter.get(), coir::task_cancelled);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, SelectSet, coir_test::processors, coir_test::processors_name);

}  // namespace
