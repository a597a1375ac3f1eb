// on_stop: a std::stop_token as a case of a select.
#include <chrono>
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

using namespace std::chrono_literals;
using channel_test::counted;
using coir::chan;
using coir::make_chan;
using coir::on_recv;
using coir::on_stop;
using coir::select;
using coir_test::until_blocked;

class SelectStop : public coir_test::with_processors {};

TEST_P(SelectStop, WakesABlockedSelect) {
  run([] {
    const chan<int> ch = make_chan<int>();
    std::stop_source source;
    bool ran = false;
    coir::task<std::size_t> waiter =
        coir::spawn([&] { return select(on_recv(ch), on_stop(source.get_token(), [&] { ran = true; })); });
    until_blocked(waiter);
    source.request_stop();
    EXPECT_EQ(waiter.get(), 1U);
    EXPECT_TRUE(ran);
    EXPECT_EQ(ch.try_send(1), coir::send_status::would_block);  // the receive was taken back
  });
}

TEST_P(SelectStop, ByAThreadWakesEverySelectOnTheToken) {
  run([] {
    std::stop_source source;
    const chan<int> ch = make_chan<int>();
    std::vector<coir::task<std::size_t>> waiters;
    for (int i = 0; i < 50; ++i)
      waiters.push_back(coir::spawn([&] { return select(on_stop(source.get_token()), on_recv(ch)); }));
    until_blocked(waiters);
    std::thread stopper([&] { source.request_stop(); });
    for (auto& w : waiters) EXPECT_EQ(w.get(), 0U);
    stopper.join();
  });
}

TEST_P(SelectStop, AlreadyRequestedIsReadyAtOnce) {
  run([] {
    std::stop_source source;
    source.request_stop();
    EXPECT_EQ(select(on_stop(source.get_token())), 0U);
    EXPECT_EQ(select(on_recv(make_chan<int>()), on_stop(source.get_token())), 1U);
    coir::select_set set;
    set.recv(make_chan<int>());
    set.stop(source.get_token());
    EXPECT_EQ(set.wait(), 1U);
    EXPECT_EQ(set.wait(), 1U);
  });
}

TEST_P(SelectStop, ATokenWithoutAStateIsNeverReady) {
  run([] {
    EXPECT_EQ(select(on_stop(std::stop_token{}), coir::otherwise()), 1U);
    EXPECT_EQ(select(on_stop(std::stop_token{}), coir::on_timeout(1ms)), 1U);
    const chan<int> ch = make_chan<int>(1);
    ch.send(1);
    EXPECT_EQ(select(on_stop(std::stop_token{}), on_recv(ch)), 1U);
    coir::task<std::size_t> waiter = coir::spawn([] { return select(on_stop(std::stop_token{})); });
    until_blocked(waiter);
    waiter.request_stop();
    EXPECT_THROW(waiter.get(), coir::task_cancelled);
  });
}

TEST_P(SelectStop, ALaterRequestOnAnOldTokenDoesNotDisturbTheNextWait) {
  run([] {
    std::stop_source first;
    const chan<int> ch = make_chan<int>(), next = make_chan<int>();
    coir::task<std::optional<int>> waiter = coir::spawn([&] {
      EXPECT_EQ(select(on_recv(ch), on_stop(first.get_token())), 0U);
      return next.recv();
    });
    ch.send(1);
    until_blocked(waiter);
    first.request_stop();
    EXPECT_EQ(waiter.status(), coir::task_status::blocked);
    next.send(2);
    EXPECT_EQ(waiter.get(), 2);
  });
}

TEST_P(SelectStop, ManyTokensInOneSelectTellWhichOneFired) {
  run([] {
    std::vector<std::stop_source> sources(10);
    for (std::size_t which = 0; which < sources.size(); ++which) {
      coir::task<std::size_t> waiter = coir::spawn([&] {
        coir::select_set set;
        for (std::stop_source& s : sources) set.stop(s.get_token());
        return set.wait();
      });
      until_blocked(waiter);
      sources[which].request_stop();
      EXPECT_EQ(waiter.get(), which);
      sources[which] = std::stop_source{};
    }
  });
}

TEST_P(SelectStop, StopAndValueAtOnceAreEitherNeverBoth) {
  run([] {
    for (int round = 0; round < coir_test::scaled(10'000); ++round) {
      const chan<counted> ch = make_chan<counted>();
      std::stop_source source;
      std::optional<counted> got;
      coir::task<std::size_t> waiter =
          coir::spawn([&] { return select(on_recv(ch, got), on_stop(source.get_token())); });
      if (round % 2 == 0) until_blocked(waiter);
      coir::task<void> stopper = coir::spawn([&] { source.request_stop(); });
      const bool sent = ch.try_send(counted{round}) == coir::send_status::done;
      const std::size_t fired = waiter.get();
      ASSERT_EQ(fired, sent ? 0U : 1U);
      ASSERT_EQ(got.has_value(), sent);
      stopper.get();
    }
  });
  EXPECT_EQ(counted::alive(), 0);
}

TEST_P(SelectStop, RacingTheBeginningOfTheWaitIsNotLost) {
  run([] {
    const chan<int> ch = make_chan<int>();
    for (int round = 0; round < coir_test::scaled(10'000); ++round) {
      std::stop_source source;
      coir::task<void> stopper = coir::spawn([&] { source.request_stop(); });
      ASSERT_EQ(select(on_recv(ch), on_stop(source.get_token())), 1U);
      stopper.get();
    }
  });
}

TEST_P(SelectStop, RacingTheBeginningOfAThreadsWaitIsNotLost) {
  run([] {
    const chan<int> ch = make_chan<int>();
    const chan<std::stop_source> sources = make_chan<std::stop_source>();
    std::thread stopper([&] {
      for (const std::stop_source& s : sources) s.request_stop();
    });
    for (int round = 0; round < coir_test::scaled(5'000); ++round) {
      std::stop_source source;
      sources.send(source);
      ASSERT_EQ(select(on_recv(ch), on_stop(source.get_token())), 1U);
    }
    sources.close();
    stopper.join();
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, SelectStop, coir_test::processors, coir_test::processors_name);

}  // namespace
