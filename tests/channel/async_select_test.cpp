// Coroutines that select: async_select and select_set::async_wait.
#include <coir/async.hpp>
#include <coir/chan.hpp>
#include <coir/select.hpp>
#include <coir/time.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <semaphore>
#include <stdexcept>
#include <stop_token>
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
using coir::async_select;
using coir::chan;
using coir::make_chan;
using coir::on_recv;
using coir::on_send;
using coir::on_stop;
using coir::on_timeout;
using coir_test::scaled;
using coir_test::until_blocked;

class AsyncSelect : public coir_test::with_processors {
 protected:
  void TearDown() override { EXPECT_EQ(counted::alive(), 0) << "left behind, or destroyed twice"; }
};

TEST_P(AsyncSelect, TakesWhatIsReadyOrComesFirst) {
  for (const bool sleeps : {false, true}) {
    run([&] {
      const auto numbers = make_chan<int>(1);
      const auto words = make_chan<std::string>(1);
      std::optional<int> number;
      std::string word;
      coir::task<std::size_t> t = coir::spawn([&]() -> async<std::size_t> {
        co_return co_await async_select(on_recv(numbers, number),
                                        on_recv(words, [&](std::optional<std::string> s) { word = s.value(); }));
      });
      if (sleeps) until_blocked(t);
      words.send("a word that is too long for its own frame");
      EXPECT_EQ(t.get(), 1U);
      EXPECT_EQ(word, "a word that is too long for its own frame");
      EXPECT_FALSE(number);
      EXPECT_EQ(numbers.try_send(1), coir::send_status::done);  // nobody waits there any more
      EXPECT_EQ(numbers.len(), 1U);
    });
  }
}

TEST_P(AsyncSelect, SendsOnlyTheValueOfTheCaseThatIsTaken) {
  run([] {
    const auto a = make_chan<counted>(), b = make_chan<counted>();
    counted first(1), second(2);
    coir::task<std::size_t> t = coir::spawn([&]() -> async<std::size_t> {
      co_return co_await async_select(on_send(a, std::move(first)), on_send(b, std::move(second)));
    });
    until_blocked(t);
    EXPECT_EQ(b.recv()->value(), 2);
    EXPECT_EQ(t.get(), 1U);
    EXPECT_TRUE(first.holds_value());
    EXPECT_FALSE(second.holds_value());
  });
}

// Compilers have destroyed twice, or copied byte by byte, what is made within a co_await expression; GCC 12 does so
// with closures, which must therefore have names there if that would matter.
TEST_P(AsyncSelect, HandlersAndValuesLiveOnce) {
  run([] {
    const auto in = make_chan<counted>(), out = make_chan<counted>();
    const auto shared = std::make_shared<int>(0);
    for (int i = 0; i < 100; ++i) {
      coir::task<std::size_t> t = coir::spawn([&, i]() -> async<std::size_t> {
        const auto received = [shared, text = std::string(100, 'x')](std::optional<counted> v) {
          *shared += v->value();
        };
        const std::size_t fired =
            co_await async_select(on_recv(in, received), on_send(out, counted(i), [p = shared.get()] { *p += 1000; }));
        EXPECT_EQ(shared.use_count(), 2);
        co_return fired;
      });
      until_blocked(t);
      EXPECT_EQ(shared.use_count(), 2);
      if (i % 2 == 0) {
        in.send(counted(1));
      } else {
        EXPECT_EQ(out.recv()->value(), i);
      }
      EXPECT_EQ(t.get(), i % 2 == 0 ? 0U : 1U);
      EXPECT_EQ(counted::alive(), 0);
    }
    EXPECT_EQ(*shared, 50 + 50 * 1000);
    EXPECT_EQ(shared.use_count(), 1);
  });
}

#if defined(__clang__) || __GNUC__ >= 13
TEST_P(AsyncSelect, ClosuresThatAreMadeInTheExpressionLiveOnce) {
  run([] {
    const auto in = make_chan<int>(1);
    const auto shared = std::make_shared<int>(0);
    coir::spawn([&]() -> async<void> {
      for (int i = 0; i < 100; ++i) {
        in.send(i);
        co_await async_select(on_recv(in, [shared, text = std::string(100, 'x')](std::optional<int>) { ++*shared; }));
        EXPECT_EQ(shared.use_count(), 1);
      }
    }).get();
    EXPECT_EQ(*shared, 100);
  });
}
#endif

TEST_P(AsyncSelect, ChoosesEvenlyAmongThoseThatAreReady) {
  run([] {
    const std::array<chan<int>, 3> all{make_chan<int>(1), make_chan<int>(1), make_chan<int>(1)};
    std::array<int, 3> chosen{};
    coir::spawn([&]() -> async<void> {
      for (int i = 0; i < 3'000; ++i) {
        for (const auto& ch : all) static_cast<void>(ch.try_send(i));
        ++chosen[co_await async_select(on_recv(all[0]), on_recv(all[1]), on_recv(all[2]))];
      }
    }).get();
    for (const int n : chosen) EXPECT_NEAR(n, 1'000, 200);
  });
}

TEST_P(AsyncSelect, TimeoutsFireWhenNothingElseDoesAndNeverEarly) {
  run([] {
    const auto ch = make_chan<int>(1);
    coir::spawn([ch]() -> async<void> {
      const auto start = std::chrono::steady_clock::now();
      EXPECT_EQ(co_await async_select(on_recv(ch), on_timeout(5ms), on_timeout(1h)), 1U);
      EXPECT_GE(std::chrono::steady_clock::now() - start, 5ms);
      EXPECT_EQ(co_await async_select(on_timeout(start + 10ms), on_recv(ch)), 0U);
      EXPECT_GE(std::chrono::steady_clock::now() - start, 10ms);
      EXPECT_EQ(co_await async_select(on_recv(ch), on_timeout(0s)), 1U);
      EXPECT_EQ(co_await async_select(on_recv(ch), on_timeout(start)), 1U);
      EXPECT_EQ(co_await async_select(on_timeout(1ms)), 0U);
      ch.send(1);
      EXPECT_EQ(co_await async_select(on_recv(ch), on_timeout(0s)), 0U);
      EXPECT_EQ(co_await async_select(on_recv(ch), coir::otherwise()), 1U);
      EXPECT_EQ(co_await async_select(on_recv(ch), on_recv(ch), coir::otherwise()), 2U);
    }).get();
    EXPECT_EQ(ch.try_send(2), coir::send_status::done);
  });
}

TEST_P(AsyncSelect, AValueThatRacesTheTimeoutIsNotLost) {
  run([] {
    int late = 0;
    for (int i = 0; i < scaled(3'000); ++i) {
      const auto ch = make_chan<counted>();
      coir::task<bool> t = coir::spawn([ch, i]() -> async<bool> {
        std::optional<counted> got;
        const std::size_t fired =
            co_await async_select(on_recv(ch, got), on_timeout(std::chrono::microseconds(i % 150)));
        EXPECT_EQ(got.has_value(), fired == 0);
        co_return got.has_value();
      });
      counted mine(i);
      bool sent = false;
      const auto from = std::chrono::steady_clock::now() + std::chrono::microseconds(i * 7 % 150);
      while (std::chrono::steady_clock::now() < from) coir::yield();
      while (!sent && t.status() != coir::task_status::finished) {
        sent = ch.try_send(std::move(mine)) == coir::send_status::done;
        if (!sent) coir::yield();
      }
      ASSERT_EQ(t.get(), sent);
      ASSERT_EQ(mine.holds_value(), !sent);
      late += sent ? 0 : 1;
    }
    EXPECT_GT(late, 0);
    EXPECT_LT(late, scaled(3'000));
  });
}

TEST_P(AsyncSelect, ADeadlineHoldsThoughItsProcessorWasRetaken) {
  run([] {
    const auto ch = make_chan<int>(1);
    coir::spawn([ch]() -> async<void> {
      std::binary_semaphore ran{0};
      for (int i = 0; i < scaled(100); ++i) {
        coir::go([&ran] { ran.release(); });
        ran.acquire();  // blocks the thread: with one processor, until the monitor has given that to another one
        const auto start = std::chrono::steady_clock::now();
        if (i % 2 == 0) {
          EXPECT_EQ(co_await async_select(on_recv(ch), on_timeout(100us)), 1U);
          EXPECT_GE(std::chrono::steady_clock::now() - start, 100us);
        } else {
          coir::go([ch] { ch.send(1); });
          EXPECT_EQ(co_await async_select(on_recv(ch), on_timeout(1h)), 0U);
        }
      }
    }).get();
  });
}

TEST_P(AsyncSelect, DeadlinesMayComeWhileTheirRuntimeIsCancelled) {
  for (int round = 0; round < scaled(100); ++round) {
    std::atomic<int> fired{0};
    coir::runtime rt{opts()};
    for (int i = 0; i < 40; ++i) {
      rt.go([&fired, i]() -> async<void> {
        const auto never = make_chan<int>();
        for (;;) {
          co_await async_select(on_recv(never), on_timeout(std::chrono::microseconds(10 * i + 10)));
          ++fired;
        }
      });
    }
    coir_test::until([&] { return fired >= round; });
    rt.cancel();
    rt.wait();
  }
}

TEST_P(AsyncSelect, StopsAreSeenBeforeWhileAndAfterItFallsAsleep) {
  run([] {
    const auto ch = make_chan<int>();
    for (int i = 0; i < scaled(3'000); ++i) {
      std::stop_source source;
      if (i % 3 == 0) source.request_stop();
      coir::task<std::size_t> t = coir::spawn(
          [&]() -> async<std::size_t> { co_return co_await async_select(on_recv(ch), on_stop(source.get_token())); });
      if (i % 3 == 1) until_blocked(t);
      source.request_stop();
      ASSERT_EQ(t.get(), 1U);
    }
    EXPECT_EQ(ch.try_send(1), coir::send_status::would_block);
  });
}

TEST_P(AsyncSelect, StopAndValueAtOnceAreEitherNeverBoth) {
  run([] {
    for (int round = 0; round < scaled(5'000); ++round) {
      const auto ch = make_chan<counted>();
      std::stop_source source;
      std::optional<counted> got;
      coir::task<std::size_t> t = coir::spawn([&]() -> async<std::size_t> {
        co_return co_await async_select(on_recv(ch, got), on_stop(source.get_token()));
      });
      if (round % 2 == 0) until_blocked(t);
      std::optional<std::thread> outside;
      coir::task<void> stopper;
      if (round % 50 == 0)
        outside.emplace([&] { source.request_stop(); });
      else
        stopper = coir::spawn([&] { source.request_stop(); });
      const bool sent = ch.try_send(counted{round}) == coir::send_status::done;
      ASSERT_EQ(t.get(), sent ? 0U : 1U);
      ASSERT_EQ(got.has_value(), sent);
      if (outside)
        outside->join();
      else
        stopper.get();
    }
  });
}

TEST_P(AsyncSelect, ClosedChannelsAreReadyAndASendToOneThrows) {
  for (const bool sleeps : {false, true}) {
    run([&] {
      const auto in = make_chan<int>();
      const auto out = make_chan<counted>();
      bool got_nothing = false;
      coir::task<std::size_t> receiver = coir::spawn([&]() -> async<std::size_t> {
        co_return co_await async_select(on_recv(chan<int>()),
                                        on_recv(in, [&](std::optional<int> v) { got_nothing = !v; }));
      });
      counted kept(1);
      coir::task<std::size_t> sender = coir::spawn([&]() -> async<std::size_t> {
        co_return co_await async_select(on_recv(chan<int>()), on_send(out, std::move(kept)));
      });
      if (sleeps) {
        until_blocked(receiver);
        until_blocked(sender);
      }
      in.close();
      out.close();
      EXPECT_EQ(receiver.get(), 1U);
      EXPECT_TRUE(got_nothing);
      EXPECT_THROW(sender.get(), coir::closed_channel);
      EXPECT_TRUE(kept.holds_value());
    });
  }
}

TEST_P(AsyncSelect, ACancelledOneThrowsUnlinksAllAndLetsThoseBehindItThrough) {
  run([] {
    const auto a = make_chan<counted>(), b = make_chan<counted>();
    counted mine(9);
    coir::task<void> first = coir::spawn([&]() -> async<void> {
      co_await async_select(on_recv(a), on_send(b, std::move(mine)), on_recv(a), on_timeout(1h));
      ADD_FAILURE() << "not cancelled";
    });
    until_blocked(first);
    coir::task<int> second = coir::spawn([=]() -> async<int> { co_return (co_await a.async_recv())->value(); });
    until_blocked(second);
    first.request_stop();
    EXPECT_THROW(first.get(), coir::task_cancelled);
    EXPECT_TRUE(mine.holds_value());
    a.send(counted(5));
    EXPECT_EQ(second.get(), 5);
    std::optional<counted> none;
    EXPECT_EQ(coir::select(on_recv(b, none), coir::otherwise()), 1U);
    // Cancelled before it waits: what is ready is had all the same.
    coir::task<void> third = coir::spawn([=]() -> async<void> {
      EXPECT_THROW(co_await async_select(on_recv(make_chan<int>())), coir::cancelled);
      const auto full = make_chan<int>(1);
      full.send(1);
      EXPECT_EQ(co_await async_select(on_recv(full), on_recv(a)), 0U);
      EXPECT_THROW(co_await async_select(on_recv(full), on_timeout(1h), on_stop(std::stop_source().get_token())),
                   coir::cancelled);
    });
    until_blocked(third);
    third.request_stop();
    third.get();
  });
}

async<void> select_twice(chan<counted> ch, std::atomic<int>& got) {
  const auto never = make_chan<counted>();
  co_await async_select(on_recv(never), on_recv(ch, [&](std::optional<counted>) { got = 1; }));
  co_await async_select(on_recv(never));
}

TEST_P(AsyncSelect, AGrantThatRacesACancellationIsNotLost) {
  run([] { channel_test::race_grants_with_cancellations(select_twice); });
}

TEST_P(AsyncSelect, UncancellableHolds) {
  run([] {
    const auto ch = make_chan<int>();
    coir::task<int> t = coir::spawn([ch]() -> async<int> {
      std::optional<int> v;
      const coir::uncancellable guard;
      co_await async_select(on_recv(ch, v), on_timeout(1h));
      co_return *v;
    });
    until_blocked(t);
    t.request_stop();
    ch.send(3);
    EXPECT_EQ(t.get(), 3);
  });
}

TEST_P(AsyncSelect, WhatAHandlerThrowsReachesTheCoroutine) {
  for (const bool sleeps : {false, true}) {
    run([&] {
      const auto ch = make_chan<int>(1);
      coir::task<int> t = coir::spawn([ch]() -> async<int> {
        try {
          co_await async_select(on_recv(ch, [](std::optional<int>) { throw std::runtime_error("mine"); }));
        } catch (const std::runtime_error&) {
          co_return 1;
        }
        co_return 0;
      });
      if (sleeps) until_blocked(t);
      ch.send(1);
      EXPECT_EQ(t.get(), 1);
    });
  }
}

TEST_P(AsyncSelect, SelectsMeetEachOtherAndNeverThemselves) {
  run([] {
    const auto a = make_chan<int>(), b = make_chan<int>();
    // Each sends on one and receives on the other, or both on the same: no two of its own cases may meet.
    const int n = scaled(2'000);
    const auto both = [](chan<int> mine, chan<int> other) -> async<int> {
      int sent = 0, received = 0;
      while (sent + received < n) {
        co_await async_select(on_send(mine, 1, [&] { ++sent; }),
                              on_recv(other, [&](std::optional<int>) { ++received; }),
                              on_recv(mine, [&](std::optional<int>) { ++received; }));
      }
      co_return sent - received;
    };
    coir::task<int> first = coir::spawn(both(a, b)), second = coir::spawn(both(b, a));
    // Whoever is left alone at the end meets this one, a fiber.
    int mine = 0;
    for (;;) {
      const std::size_t fired = coir::select(on_recv(a), on_recv(b), on_timeout(50ms));
      if (fired == 2) {
        if (first.status() == coir::task_status::finished && second.status() == coir::task_status::finished) break;
        const std::size_t given = coir::select(on_send(a, 0), on_send(b, 0), on_timeout(50ms));
        mine += given < 2 ? 1 : 0;
      } else {
        --mine;
      }
    }
    EXPECT_EQ(first.get() + second.get() + mine, 0);
  });
}

TEST_P(AsyncSelect, MeetsFibersThreadsAndCallbacks) {
  coir::runtime rt{opts()};
  const auto in = make_chan<int>(), out = make_chan<int>(1);
  coir::task<std::int64_t> t = rt.spawn([in, out]() -> async<std::int64_t> {
    std::int64_t total = 0;
    for (int sent = 0;;) {
      bool over = false;
      co_await async_select(on_recv(in,
                                    [&](std::optional<int> v) {
                                      over = !v;
                                      total += v.value_or(0);
                                    }),
                            on_send(out, sent, [&] { ++sent; }));
      if (over) co_return total;
    }
  });
  const int n = scaled(1'000);
  std::thread sender([&] {
    for (int i = 1; i <= n; ++i) in.send(i);
  });
  std::thread receiver([&] {
    for (int i = 0; i < n; ++i) ASSERT_EQ(out.recv(), i);
  });
  coir::task<void> fiber = rt.spawn([&] {
    for (int i = 1; i <= n; ++i) in.send(i);
  });
  sender.join();
  receiver.join();
  fiber.get();
  in.close();
  EXPECT_EQ(t.get(), std::int64_t{n} * (n + 1));
}

TEST_P(AsyncSelect, TheChannelsMayGoAsSoonAsOneHasFired) {
  run([] {
    for (int i = 0; i < scaled(10'000); ++i) {
      std::vector<chan<int>> all{make_chan<int>(), make_chan<int>(), make_chan<int>()};
      const auto pick = all[static_cast<std::size_t>(i) % 3];
      coir::task<void> t = coir::spawn([](std::vector<chan<int>> mine) -> async<void> {
        co_await async_select(on_recv(mine[0]), on_recv(mine[1]), on_recv(mine[2]));
      }(std::move(all)));
      pick.send(i);
      t.get();
    }
  });
}

TEST_P(AsyncSelect, ASetIsWaitedForAgainAndAgain) {
  run([] {
    constexpr std::size_t n = 20;
    std::vector<chan<int>> inputs;
    for (std::size_t i = 0; i < n; ++i) inputs.push_back(make_chan<int>());
    coir::task<std::int64_t> t = coir::spawn([&]() -> async<std::int64_t> {
      coir::select_set set;
      std::int64_t total = 0;
      std::size_t closed = 0;
      std::vector<bool> over(n);
      for (std::size_t i = 0; i < n; ++i) {
        set.recv(inputs[i], [&, i](std::optional<int> v) {
          if (v) {
            total += *v;
          } else if (!over[i]) {
            over[i] = true;
            ++closed;
          }
        });
      }
      const std::size_t timed_out = set.timeout(1h);
      while (closed < n) EXPECT_NE(co_await set.async_wait(), timed_out);
      co_return total;
    });
    for (int v = 1; v <= scaled(1'000); ++v) inputs[static_cast<std::size_t>(v) % n].send(v);
    for (const auto& ch : inputs) ch.close();
    EXPECT_EQ(t.get(), std::int64_t{scaled(1'000)} * (scaled(1'000) + 1) / 2);
    coir::select_set idle;
    idle.recv(make_chan<int>());
    idle.timeout(1ms);
    EXPECT_EQ(coir::spawn([&]() -> async<std::size_t> { co_return co_await idle.async_wait(); }).get(), 1U);
  });
}

TEST_P(AsyncSelect, ADeadlockListsThoseThatSelectAndUnwindsThem) {
  std::string report;
  std::atomic<int> unwound{0};
  try {
    run([&] {
      const auto ch = make_chan<int>();
      coir::task<void> t = coir::spawn([&]() -> async<void> {
        try {
          co_await async_select(on_recv(ch), on_send(ch, 1), on_stop(coir::this_fiber::stop_token()));
        } catch (const coir::cancelled&) {
          ++unwound;
          throw;
        }
      });
      coir::task<void> none = coir::spawn([&]() -> async<void> {
        try {
          co_await async_select();
        } catch (const coir::cancelled&) {
          ++unwound;
          throw;
        }
      });
      t.get();
    });
    ADD_FAILURE() << "no deadlock";
  } catch (const coir::deadlock& d) {
    report = d.what();
  }
  EXPECT_EQ(unwound, 2);
  EXPECT_NE(report.find(": select"), report.npos) << report;
  EXPECT_NE(report.find(": select (no cases)"), report.npos) << report;
}

INSTANTIATE_TEST_SUITE_P(Processors, AsyncSelect, coir_test::processors, coir_test::processors_name);

}  // namespace
