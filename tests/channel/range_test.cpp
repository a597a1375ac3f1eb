// `for (T v : ch)` and the ranges library over channels.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <numeric>
#include <ranges>
#include <thread>
#include <vector>

#include <coir/chan.hpp>

#include "coir_test.hpp"
#include "values.hpp"

namespace {

using channel_test::counted;
using coir::chan;
using coir::make_chan;
using coir::recv_chan;
using coir_test::until_blocked;

class ChannelRange : public coir_test::with_processors {};

TEST_P(ChannelRange, YieldsTheValuesInOrderUntilClosedAndDrained) {
  run([] {
    for (const std::size_t capacity : {std::size_t{0}, std::size_t{1}, std::size_t{8}}) {
      const chan<int> ch = make_chan<int>(capacity);
      coir::go([ch] {
        for (int i = 0; i < 100; ++i) ch.send(i);
        ch.close();
      });
      int expected = 0;
      for (int v : ch) EXPECT_EQ(v, expected++);
      EXPECT_EQ(expected, 100);
      for (int v : ch) ADD_FAILURE() << "received " << v << " from a drained channel";
    }
  });
}

TEST_P(ChannelRange, BlocksBetweenValues) {
  run([] {
    const chan<int> ch = make_chan<int>();
    coir::task<int> consumer = coir::spawn([in = recv_chan<int>(ch)] {
      int sum = 0;
      for (int v : in) sum += v;
      return sum;
    });
    for (int i = 1; i <= 3; ++i) {
      until_blocked(consumer);
      ch.send(i);
    }
    until_blocked(consumer);
    ch.close();
    EXPECT_EQ(consumer.get(), 6);
  });
}

TEST_P(ChannelRange, OfManyConsumersDrainsExactlyOnceAfterClose) {
  run([] {
    for (const std::size_t capacity : {std::size_t{0}, std::size_t{5}, std::size_t{1000}}) {
      const int n = coir_test::scaled(20'000);
      const chan<int> ch = make_chan<int>(capacity);
      std::vector<coir::task<std::vector<int>>> consumers;
      for (int c = 0; c < 6; ++c) {
        consumers.push_back(coir::spawn([ch] {
          std::vector<int> mine;
          for (int v : ch) mine.push_back(v);
          return mine;
        }));
      }
      std::vector<int> by_thread;
      std::thread thread([&] {
        for (int v : ch) by_thread.push_back(v);
      });
      for (int i = 0; i < n; ++i) ch.send(i);
      ch.close();
      thread.join();
      std::vector<int> all = by_thread;
      for (auto& c : consumers) {
        const std::vector<int> part = c.get();
        EXPECT_TRUE(std::is_sorted(part.begin(), part.end()));
        all.insert(all.end(), part.begin(), part.end());
      }
      std::sort(all.begin(), all.end());
      std::vector<int> every(static_cast<std::size_t>(n));
      std::iota(every.begin(), every.end(), 0);
      EXPECT_EQ(all, every);
    }
  });
}

TEST_P(ChannelRange, LeftEarlyKeepsTheRest) {
  run([] {
    const chan<counted> ch = make_chan<counted>(5);
    for (int i = 0; i < 5; ++i) ch.send(counted{i});
    for (counted v : ch)
      if (v.value() == 1) break;
    EXPECT_EQ(ch.len(), 3U);
    EXPECT_EQ(counted::alive(), 3);
    EXPECT_EQ(ch.recv()->value(), 2);
  });
  EXPECT_EQ(counted::alive(), 0);
}

TEST_P(ChannelRange, GivesMoveOnlyValuesAway) {
  run([] {
    const chan<std::unique_ptr<int>> ch = make_chan<std::unique_ptr<int>>(3);
    for (int i = 0; i < 3; ++i) ch.send(std::make_unique<int>(i));
    ch.close();
    std::vector<std::unique_ptr<int>> kept;
    for (std::unique_ptr<int> v : ch) kept.push_back(std::move(v));
    ASSERT_EQ(kept.size(), 3U);
    EXPECT_EQ(*kept[2], 2);
  });
}

TEST_P(ChannelRange, WorksWithTheRangesLibrary) {
  run([] {
    const chan<int> again = make_chan<int>(4);
    for (int i = 0; i < 4; ++i) again.send(i);
    again.close();
    std::vector<int> copied;
    std::ranges::copy(again, std::back_inserter(copied));
    EXPECT_EQ(copied, (std::vector<int>{0, 1, 2, 3}));

#if !defined(__clang__) || __clang_major__ >= 16  // older ones cannot compile libstdc++'s views
    const chan<int> ch = make_chan<int>(10);
    for (int i = 1; i <= 10; ++i) ch.send(i);
    ch.close();
    int sum = 0;
    std::ranges::for_each(
        ch | std::views::filter([](int v) { return v % 2 == 0; }) | std::views::transform([](int v) { return v * v; }),
        [&](int v) { sum += v; });
    EXPECT_EQ(sum, 4 + 16 + 36 + 64 + 100);
#endif
  });
}

TEST_P(ChannelRange, KeepsTheChannelAliveWhileItIsRead) {
  run([] {
    auto made = [] {
      const chan<int> ch = make_chan<int>(3);
      for (int i = 0; i < 3; ++i) ch.send(i);
      ch.close();
      return ch;
    };
    int count = 0;
    for (int v : made()) EXPECT_EQ(v, count++);
    EXPECT_EQ(count, 3);

    chan<int> handle = made();
    auto i = handle.begin();
    handle = {};
    EXPECT_EQ(*i, 0);
    ++i;
    EXPECT_EQ(*i, 1);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, ChannelRange, coir_test::processors, coir_test::processors_name);

}  // namespace
