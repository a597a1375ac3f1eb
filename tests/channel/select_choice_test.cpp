// Which of several ready cases is taken: each as often as the others.
#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

#include <coir/chan.hpp>
#include <coir/select.hpp>

#include "coir_test.hpp"

namespace {

using coir::chan;
using coir::make_chan;
using coir::on_recv;
using coir::on_send;
using coir::select;
using coir::select_set;

class SelectChoice : public coir_test::with_processors {};

/// Pearson's statistic of the counts against an even distribution must stay below what a fair choice exceeds once in
/// ten million runs: the critical values of chi-square at 1e-7 for 1 to 9 degrees of freedom.
void expect_even(const std::vector<int>& counts) {
  constexpr std::array<double, 10> critical{0, 28.4, 32.3, 35.4, 38.2, 40.9, 43.4, 45.9, 48.3, 50.6};
  double total = 0;
  for (const int count : counts) total += count;
  const double expected = total / static_cast<double>(counts.size());
  double statistic = 0;
  for (const int count : counts) statistic += (count - expected) * (count - expected) / expected;
  EXPECT_LT(statistic, critical.at(counts.size() - 1)) << testing::PrintToString(counts);
}

std::vector<int> count_choices(std::size_t cases, const std::function<std::size_t()>& choose) {
  std::vector<int> counts(cases, 0);
  const int rounds = coir_test::scaled(100'000);
  for (int i = 0; i < rounds; ++i) ++counts.at(choose());
  return counts;
}

TEST_P(SelectChoice, AmongReadyReceivesIsEven) {
  run([] {
    const chan<int> a = make_chan<int>(1), b = make_chan<int>(1), c = make_chan<int>(1);
    const auto refill = [](const chan<int>& ch) { ch.try_send(0); };
    expect_even(count_choices(2, [&] {
      refill(a), refill(b);
      return select(on_recv(a), on_recv(b));
    }));
    expect_even(count_choices(3, [&] {
      refill(a), refill(b), refill(c);
      return select(on_recv(a), on_recv(b), on_recv(c));
    }));
  });
}

TEST_P(SelectChoice, AmongReadySendsAndReceivesIsEven) {
  run([] {
    const chan<int> full = make_chan<int>(2), free = make_chan<int>(1), closed = make_chan<int>();
    closed.close();
    int unused = 0;
    expect_even(count_choices(3, [&] {
      full.try_send(0);
      free.try_recv(unused);
      return select(on_send(free, 1), on_recv(closed), on_recv(full));
    }));
  });
}

TEST_P(SelectChoice, LeavesOutTheCasesThatAreNotReady) {
  run([] {
    const chan<int> ready = make_chan<int>(), never = make_chan<int>();
    const chan<int> also = make_chan<int>();
    ready.close();
    also.close();
    const std::vector<int> counts = count_choices(5, [&] {
      return select(on_recv(never), on_recv(ready), on_recv(chan<int>{}), on_recv(also), on_send(never, 1));
    });
    EXPECT_EQ(counts[0] + counts[2] + counts[4], 0);
    expect_even({counts[1], counts[3]});
  });
}

TEST_P(SelectChoice, BetweenParkedPeersIsEven) {
  run([] {
    const chan<int> a = make_chan<int>(), b = make_chan<int>();
    auto keep_sending = [](const chan<int>& ch) {
      try {
        for (;;) ch.send(1);
      } catch (const coir::closed_channel&) {
      }
    };
    coir::task<void> to_a = coir::spawn([&] { keep_sending(a); }), to_b = coir::spawn([&] { keep_sending(b); });
    std::vector<int> counts(2, 0);
    for (int i = 0; i < coir_test::scaled(20'000); ++i) {
      coir_test::until_blocked(to_a);
      coir_test::until_blocked(to_b);
      ++counts[select(on_recv(a), on_recv(b))];
    }
    expect_even(counts);
    a.close();
    b.close();
  });
}

TEST_P(SelectChoice, CountsEachCaseOfADuplicatedChannel) {
  run([] {
    const chan<int> closed = make_chan<int>();
    closed.close();
    expect_even(
        count_choices(4, [&] { return select(on_recv(closed), on_recv(closed), on_recv(closed), on_recv(closed)); }));
  });
}

TEST_P(SelectChoice, OfASetIsEven) {
  run([] {
    for (const std::size_t cases : {std::size_t{2}, std::size_t{5}, std::size_t{10}}) {
      std::vector<chan<int>> channels;
      select_set set;
      for (std::size_t i = 0; i < cases; ++i) {
        channels.push_back(make_chan<int>());
        channels.back().close();
        set.recv(channels.back());
      }
      expect_even(count_choices(cases, [&] { return set.wait(); }));
    }
  });
}

TEST_P(SelectChoice, AmongManyCasesOfASetTakesEachOfThem) {
  run([] {
    const chan<int> closed = make_chan<int>();
    closed.close();
    select_set set;
    for (int i = 0; i < 200; ++i) set.recv(closed);  // more than the bits of a word
    std::vector<int> counts(10, 0);
    for (int i = 0; i < coir_test::scaled(100'000); ++i) ++counts[set.wait() / 20];
    expect_even(counts);
  });
}

TEST_P(SelectChoice, CountsARequestedStopAsReady) {
  run([] {
    const chan<int> closed = make_chan<int>();
    closed.close();
    std::stop_source source;
    source.request_stop();
    expect_even(count_choices(2, [&] { return select(on_recv(closed), coir::on_stop(source.get_token())); }));
  });
}

TEST_P(SelectChoice, ASendToAClosedChannelIsReadyAndThrows) {
  run([] {
    const chan<int> closed = make_chan<int>(1), full = make_chan<int>(1);
    full.send(1);
    closed.close();
    coir_test::expect_throw_message<coir::closed_channel>([&] { select(on_send(closed, 1)); },
                                                          "send on closed channel");
    coir_test::expect_throw_message<coir::closed_channel>([&] { select(on_send(closed, 1), on_send(full, 1)); },
                                                          "send on closed channel");
    coir_test::expect_throw_message<coir::closed_channel>([&] { select(on_send(closed, 1), coir::otherwise()); },
                                                          "send on closed channel");
    // Chosen like any other ready case: not always, not never.
    std::vector<int> counts(2, 0);
    for (int i = 0; i < coir_test::scaled(100'000); ++i) {
      try {
        const std::size_t fired = select(on_send(closed, 1), on_recv(full));
        ASSERT_EQ(fired, 1U);
        full.send(1);
        ++counts[1];
      } catch (const coir::closed_channel&) {
        ++counts[0];
      }
    }
    expect_even(counts);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, SelectChoice, coir_test::processors, coir_test::processors_name);

}  // namespace
