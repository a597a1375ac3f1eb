// on_timeout: a time limit as a case of a select.
#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>

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
using coir::on_timeout;
using coir::select;
using coir_test::until_blocked;
using steady = std::chrono::steady_clock;

class SelectTimeout : public coir_test::with_processors {};

TEST_P(SelectTimeout, FiresWhenNothingElseDoesAndNeverEarly) {
  run([] {
    const chan<int> ch = make_chan<int>();
    for (const auto d : {1us, 500us, 3000us}) {
      auto start = steady::now();
      bool ran = false;
      EXPECT_EQ(select(on_recv(ch), on_send(ch, 1), on_timeout(d, [&] { ran = true; })), 2U);
      EXPECT_TRUE(ran);
      EXPECT_GE(steady::now() - start, d);
      start = steady::now();
      EXPECT_EQ(select(on_timeout(start + d), on_recv(ch)), 0U);
      EXPECT_GE(steady::now() - start, d);
    }
    EXPECT_EQ(ch.try_send(1), coir::send_status::would_block);
  });
}

TEST_P(SelectTimeout, WithoutAnyChannelIsASleep) {
  run([] {
    const auto start = steady::now();
    EXPECT_EQ(select(on_timeout(2ms)), 0U);
    EXPECT_EQ(select(on_recv(chan<int>{}), on_timeout(2ms), on_send(chan<int>{}, 1)), 1U);
    EXPECT_GE(steady::now() - start, 4ms);
  });
}

TEST_P(SelectTimeout, OfNoTimeFiresAtOnce) {
  run([] {
    const chan<int> ch = make_chan<int>();
    for (const std::chrono::nanoseconds d : {0ns, -1ns, std::chrono::nanoseconds::min()})
      EXPECT_EQ(select(on_recv(ch), on_timeout(d)), 1U);
    EXPECT_EQ(select(on_recv(ch), on_timeout(steady::now() - 1h)), 1U);
    EXPECT_EQ(select(on_recv(ch), on_timeout(std::chrono::hours::min())), 1U);
  });
}

TEST_P(SelectTimeout, OfManyTheShortestFires) {
  run([] { EXPECT_EQ(select(on_timeout(10h), on_timeout(1ms), on_timeout(std::chrono::hours::max())), 1U); });
}

TEST_P(SelectTimeout, ThatIsFarAwayDoesNotDisturb) {
  run([] {
    const chan<int> ch = make_chan<int>();
    coir::task<std::size_t> longest =
        coir::spawn([&] { return select(on_timeout(std::chrono::hours::max()), on_recv(ch)); });
    until_blocked(longest);
    ch.send(1);
    EXPECT_EQ(longest.get(), 1U);
    coir::task<std::size_t> endless =
        coir::spawn([&] { return select(on_timeout(std::chrono::nanoseconds::max()), on_recv(ch)); });
    until_blocked(endless);
    ch.send(1);
    EXPECT_EQ(endless.get(), 1U);
  });
}

TEST_P(SelectTimeout, WorksInAThread) {
  run([] {
    std::thread([] {
      const chan<int> ch = make_chan<int>();
      const auto start = steady::now();
      EXPECT_EQ(select(on_recv(ch), on_timeout(2ms)), 1U);
      EXPECT_GE(steady::now() - start, 2ms);
      EXPECT_EQ(select(on_recv(chan<int>{}), on_timeout(1ms)), 1U);
    }).join();
  });
}

TEST_P(SelectTimeout, AtTheSameTimeAsAValueIsEitherNeverBoth) {
  run([] {
    const chan<counted> ch = make_chan<counted>();
    const int rounds = coir_test::scaled(20'000);
    coir::task<int> receiver = coir::spawn([&] {
      int received = 0;
      for (int i = 0; i < rounds; ++i) {
        std::optional<counted> value;
        const bool got = select(on_recv(ch, value), on_timeout(std::chrono::nanoseconds(i % 7 * 900))) == 0;
        EXPECT_EQ(value.has_value(), got);
        received += got ? 1 : 0;
      }
      return received;
    });
    int sent = 0;
    for (int i = 0; i < rounds; ++i) {
      counted value{i};
      if (select(on_send(ch, std::move(value)), on_timeout(std::chrono::nanoseconds(i % 5 * 1100))) == 0) {
        ASSERT_FALSE(value.holds_value());
        ++sent;
      } else {
        ASSERT_TRUE(value.holds_value());
      }
    }
    EXPECT_EQ(receiver.get(), sent);
  });
  EXPECT_EQ(counted::alive(), 0);
}

TEST_P(SelectTimeout, AtTheSameTimeAsACloseIsEither) {
  run([] {
    for (int round = 0; round < coir_test::scaled(3'000); ++round) {
      const chan<int> ch = make_chan<int>();
      coir::task<void> closer = coir::spawn([&] { ch.close(); });
      std::optional<int> value = -1;
      const std::size_t fired = select(on_recv(ch, value), on_timeout(std::chrono::nanoseconds(round % 10 * 500)));
      ASSERT_EQ(value.has_value(), fired == 1);
      closer.get();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, SelectTimeout, coir_test::processors, coir_test::processors_name);

}  // namespace
