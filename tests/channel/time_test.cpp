// Timers, tickers, after() and after_func(): never early, stop() true at most once and then silence, no stale tick
// after stop() or reset(), from fibers and plain threads, and nothing left behind.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <coir/select.hpp>
#include <coir/time.hpp>

#include "coir_test.hpp"

namespace {

using namespace std::chrono_literals;
using coir::after;
using coir::after_func;
using coir::chan;
using coir::make_chan;
using coir::recv_chan;
using coir::recv_status;
using coir::ticker;
using coir::timer;
using coir_test::scaled;
using coir_test::until;
using coir_test::until_blocked;
using steady = std::chrono::steady_clock;
using ticks = recv_chan<steady::time_point>;

class Time : public coir_test::with_processors {
 protected:
  /// In a fiber, and in a plain thread.
  void in_both(const std::function<void()>& body) const {
    run(body);
    body();
  }
};

bool silent(const ticks& c) {
  steady::time_point t;
  return c.try_recv(t) == recv_status::would_block;
}

static_assert(std::is_same_v<decltype(after(1s)), ticks> && std::is_same_v<decltype(std::declval<timer>().c()), ticks>);
static_assert(std::is_nothrow_move_constructible_v<timer> && std::is_nothrow_move_assignable_v<timer> &&
              !std::is_copy_constructible_v<timer> && !std::is_copy_assignable_v<timer>);
static_assert(std::is_nothrow_move_constructible_v<ticker> && std::is_nothrow_move_assignable_v<ticker> &&
              !std::is_copy_constructible_v<ticker> && !std::is_copy_assignable_v<ticker>);

// ---- firing --------------------------------------------------------------------------------------------------------

TEST_P(Time, ATickIsNeverEarlyAndTellsWhenItWasSent) {
  in_both([] {
    for (const auto d : {1us, 100us, 3000us}) {
      const auto begin = steady::now();
      const auto tick = after(d).recv();
      const auto end = steady::now();
      ASSERT_TRUE(tick);
      EXPECT_GE(*tick - begin, d);
      EXPECT_LE(*tick, end);
      timer t{d};
      EXPECT_GE(*t.c().recv() - end, d);
    }
  });
}

TEST_P(Time, ZeroAndNegativeDurationsFireAtOnce) {
  in_both([] {
    for (const auto d : {0h, -1h, std::chrono::hours::min()}) {
      EXPECT_FALSE(silent(after(d)));
      timer t{d};
      EXPECT_FALSE(t.stop());
      EXPECT_FALSE(t.reset(d));
      EXPECT_TRUE(t.c().recv());
    }
    EXPECT_FALSE(silent(after(-0.5s)));
  });
}

TEST_P(Time, TheLongestDurationsArePendingAndDoNotOverflow) {
  in_both([] {
    const auto check = [](auto d) {
      timer t{d};
      EXPECT_TRUE(silent(t.c()));
      EXPECT_TRUE(t.reset(d));
      EXPECT_TRUE(t.stop());
      ticker k{d};
      EXPECT_TRUE(silent(k.c()));
      EXPECT_TRUE(k.stop());
    };
    check(std::chrono::hours::max());
    check(std::chrono::nanoseconds::max());
    check(std::chrono::duration<double>::max());
    check(std::chrono::duration<long double>(std::numeric_limits<long double>::infinity()));
  });
}

TEST_P(Time, AFractionOfATickOfTheClockIsNotRoundedToNothing) {
  in_both([] { EXPECT_TRUE(after(std::chrono::duration<double, std::nano>(0.25)).recv()); });
}

TEST_P(Time, SelectTakesWhicheverIsFirst) {
  in_both([] {
    const chan<int> never = make_chan<int>();
    EXPECT_EQ(coir::select(coir::on_recv(never), coir::on_recv(after(2ms)), coir::on_recv(after(1h))), 1U);
  });
}

TEST_P(Time, AnEarlierTimerThatIsSetLaterIsHonoured) {
  in_both([] {
    timer late{1h};
    const auto begin = steady::now();
    after(2ms).recv();
    EXPECT_LT(steady::now() - begin, 30s);
    EXPECT_TRUE(late.reset(1ms));
    late.c().recv();
    EXPECT_LT(steady::now() - begin, 30s);
  });
}

TEST_P(Time, TimersFireThoughEveryProcessorYieldsInAStorm) {
  run([] {
    std::atomic<bool> stop{false};
    std::vector<coir::task<void>> storm;
    for (int i = 0; i < 32; ++i)
      storm.push_back(coir::spawn([&] {
        while (!stop) coir::yield();
      }));
    for (int i = 0; i < 5; ++i) after(1ms).recv();
    stop = true;
    for (auto& t : storm) t.get();
  });
}

TEST_P(Time, TimersFireThoughEveryProcessorComputes) {
  run([] {
    std::atomic<bool> stop{false};
    std::vector<coir::task<void>> busy;
    for (unsigned i = 0; i < GetParam(); ++i)
      busy.push_back(coir::spawn([&] {
        while (!stop) {
        }
      }));
    for (int i = 0; i < 3; ++i) after(1ms).recv();
    stop = true;
    for (auto& t : busy) t.get();
  });
}

TEST_P(Time, TwoRuntimesAndAThreadMayShareATimer) {
  coir::runtime other{opts()};
  std::optional<timer> t;
  run([&] {
    t.emplace(1h);
    coir::task<bool> stopped = other.spawn([&] { return t->stop(); });
    EXPECT_TRUE(stopped.get());
    std::thread foreign([&] { EXPECT_FALSE(t->reset(1ms)); });
    EXPECT_TRUE(t->c().recv());
    foreign.join();
    coir::task<bool> was = other.spawn([&] { return t->reset(1ms); });
    EXPECT_FALSE(was.get());
    EXPECT_TRUE(t->c().recv());
  });
}

// ---- stop and reset ------------------------------------------------------------------------------------------------

TEST_P(Time, StopSaysOnceThatItPreventedTheFiring) {
  in_both([] {
    timer t{1h};
    EXPECT_TRUE(t.stop());
    EXPECT_FALSE(t.stop());
    EXPECT_TRUE(silent(t.c()));
    EXPECT_FALSE(t.reset(1h));
    EXPECT_TRUE(t.reset(2h));
    EXPECT_TRUE(t.stop());
  });
}

TEST_P(Time, OnceFiredStopSaysFalseWhetherTheTickWasReadOrNotAndTakesItBack) {
  in_both([] {
    timer t{1us};
    const ticks c = t.c();
    until([&] { return c.len() == 1; });
    EXPECT_FALSE(t.stop());
    EXPECT_TRUE(silent(c));
    EXPECT_FALSE(t.reset(1us));
    c.recv();
    EXPECT_FALSE(t.stop());
    EXPECT_FALSE(t.reset(1us));
    until([&] { return c.len() == 1; });
    EXPECT_FALSE(t.reset(1h));
    EXPECT_TRUE(silent(c));
    EXPECT_TRUE(t.stop());
  });
}

TEST_P(Time, ADestroyedTimerIsSilentAndOneThatWasMovedLivesOn) {
  in_both([] {
    ticks c;
    {
      timer t{300us};
      c = t.c();
    }
    coir::sleep_for(1ms);
    EXPECT_TRUE(silent(c));
    timer a{1ms};
    c = a.c();
    timer b{std::move(a)};
    EXPECT_EQ(b.c(), c);
    EXPECT_TRUE(a.c().is_nil());
    EXPECT_FALSE(a.stop());
    EXPECT_THROW(a.reset(1ms), std::logic_error);
    EXPECT_TRUE(c.recv());
    timer d{1h};
    const ticks replaced = d.c();
    b.reset(1ms);
    d = std::move(b);
    EXPECT_TRUE(d.c().recv());
    EXPECT_TRUE(silent(replaced));
    ticker k{1ms};
    ticker l{2h};
    l = std::move(k);
    EXPECT_TRUE(l.c().recv());
    EXPECT_FALSE(k.stop());
    EXPECT_THROW(k.reset(1ms), std::logic_error);
  });
}

/// A timer is stopped, reset and received from while it fires. After each stop and reset no tick of before may come:
/// each tick received was sent after the reset that it belongs to became due, and each reset gives at most one.
TEST_P(Time, RandomStopsAndResetsRacingTheFiringLeaveNoStaleTick) {
  in_both([] {
    std::mt19937 random(1);
    const auto micros = [&](unsigned most) { return std::chrono::microseconds(random() % most); };
    timer t{1h};
    const ticks c = t.c();
    bool may_fire = true;  // set, and neither stopped nor known to have fired
    steady::time_point due = steady::time_point::max();
    int fired = 0, stopped = 0;
    for (int i = 0; i < scaled(4000); ++i) {
      switch (random() % 4) {
        case 0: {
          const bool prevented = t.stop();
          if (prevented) {
            EXPECT_TRUE(may_fire);
            ++stopped;
          }
          may_fire = false;
          EXPECT_TRUE(silent(c));
          break;
        }
        case 1: {
          const auto d = micros(60);
          const auto before = steady::now();
          const bool pending = t.reset(d);
          EXPECT_TRUE(may_fire || !pending);
          due = before + d;
          may_fire = true;
          break;
        }
        case 2: {
          steady::time_point tick;
          if (c.recv_for(tick, micros(50)) != recv_status::done) break;
          EXPECT_TRUE(may_fire);
          EXPECT_GE(tick, due);
          may_fire = false;
          EXPECT_FALSE(t.stop());
          EXPECT_TRUE(silent(c));
          ++fired;
          break;
        }
        case 3:
          coir::sleep_for(micros(40));
          break;
      }
      if (testing::Test::HasFailure()) break;
    }
    t.stop();
    EXPECT_TRUE(silent(c));
    EXPECT_GT(fired + stopped, 0);
  });
}

// Many stop one timer at a time: of each round one says true, or the tick is received, or it was taken back unread.
TEST_P(Time, OfManyThatStopATimerAtMostOneIsTold) {
  run([] {
    for (int i = 0; i < scaled(300); ++i) {
      timer t{std::chrono::microseconds(i % 60)};
      std::atomic<int> told{0};
      std::vector<coir::task<void>> all;
      for (int k = 0; k < 3; ++k)
        all.push_back(coir::spawn([&] {
          if (t.stop()) ++told;
        }));
      std::optional<std::thread> foreign;
      if (i % 10 == 0)
        foreign.emplace([&] {
          if (t.stop()) ++told;
        });
      for (auto& task : all) task.get();
      if (foreign) foreign->join();
      EXPECT_LE(told, 1);
      EXPECT_TRUE(silent(t.c()));
      if (testing::Test::HasFailure()) break;
    }
  });
}

TEST_P(Time, AReceiverMayBeBlockedWhileTheTimerIsResetByOthers) {
  run([] {
    timer t{1h};
    coir::task<steady::time_point> reader = coir::spawn([&] { return *t.c().recv(); });
    until_blocked(reader);
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(t.reset(1h));
    const auto begin = steady::now();
    std::thread foreign([&] { EXPECT_TRUE(t.reset(1ms)); });
    EXPECT_GE(reader.get() - begin, 1ms);
    foreign.join();
  });
}

// ---- ticker --------------------------------------------------------------------------------------------------------

TEST_P(Time, ATickerTicksOnScheduleAndNeverEarly) {
  in_both([] {
    const auto begin = steady::now();
    ticker k{1ms};
    auto last = begin;
    for (int i = 1; i <= 10; ++i) {
      const auto tick = *k.c().recv();
      EXPECT_GE(tick, begin + i * 1ms);
      EXPECT_GT(tick, last);
      last = tick;
    }
    EXPECT_TRUE(k.stop());
    EXPECT_FALSE(k.stop());
    EXPECT_TRUE(silent(k.c()));
  });
}

TEST_P(Time, ATickerDropsTicksForASlowReader) {
  in_both([] {
    ticker k{200us};
    const ticks c = k.c();
    for (int i = 0; i < 3; ++i) {
      coir::sleep_for(5ms);
      until([&] { return c.len() == 1; });
    }
    EXPECT_EQ(c.len(), 1U);
    EXPECT_TRUE(k.stop());
    EXPECT_TRUE(silent(c));
  });
}

TEST_P(Time, APeriodThatIsNotPositiveIsRefused) {
  in_both([] {
    EXPECT_THROW(ticker{0s}, std::invalid_argument);
    EXPECT_THROW(ticker{-1h}, std::invalid_argument);
    EXPECT_THROW(ticker{std::chrono::duration<double>(std::numeric_limits<double>::quiet_NaN())},
                 std::invalid_argument);
    ticker k{1ms};
    EXPECT_THROW(k.reset(0ms), std::invalid_argument);
    EXPECT_TRUE(k.c().recv());  // goes on
  });
}

TEST_P(Time, AResetTickerStartsItsScheduleAnew) {
  in_both([] {
    ticker k{1h};
    const auto begin = steady::now();
    EXPECT_TRUE(k.reset(1ms));
    EXPECT_GE(*k.c().recv() - begin, 1ms);
    EXPECT_TRUE(k.c().recv());
    until([&] { return k.c().len() == 1; });
    EXPECT_TRUE(k.reset(1h));
    EXPECT_TRUE(silent(k.c()));
    EXPECT_TRUE(k.stop());
    EXPECT_FALSE(k.reset(1ms));
    EXPECT_TRUE(k.c().recv());
  });
}

TEST_P(Time, ATickerMayBeDroppedAtAnyMomentOfItsTicking) {
  in_both([] {
    for (int i = 0; i < scaled(500); ++i) {
      std::optional<ticker> k;
      k.emplace(std::chrono::microseconds(i % 20 + 1));
      ticks c = k->c();
      if (i % 2 == 0) coir::sleep_for(std::chrono::microseconds(i % 50));
      if (i % 3 == 0) c = {};
      k.reset();
      EXPECT_TRUE(!c || silent(c));
    }
  });
}

// ---- after_func ----------------------------------------------------------------------------------------------------

// Its closure may be about the frame of who has set it.
TEST_P(Time, WhatAfterFuncStartsIsUnwoundBeforeWhoSetIt) {
  std::atomic<bool> ended{false};
  EXPECT_THROW(run([&] {
                 coir::go([&] {
                   struct at_end {
                     std::atomic<bool>& ended;
                     ~at_end() { EXPECT_TRUE(ended); }
                   } const last{ended};
                   const auto never = make_chan<int>();
                   const timer t = after_func(1ms, [&] {
                     try {
                       never.recv();
                     } catch (const coir::cancelled&) {
                       ended = true;
                       throw;
                     }
                   });
                   never.recv();
                 });
               }),
               coir::deadlock);
}

TEST_P(Time, AfterFuncRunsInAFiberOfItsOwn) {
  run([] {
    const auto me = coir::this_fiber::get_id();
    const chan<bool> told = make_chan<bool>();
    const auto begin = steady::now();
    timer t = after_func(1ms, [&] {
      coir::yield();
      told.send(coir::this_fiber::get_id() != me);
    });
    EXPECT_TRUE(t.c().is_nil());
    EXPECT_TRUE(*told.recv());
    EXPECT_GE(steady::now() - begin, 1ms);
    EXPECT_FALSE(t.stop());
    EXPECT_FALSE(t.reset(0s));
    EXPECT_TRUE(*told.recv());
    EXPECT_FALSE(t.reset(1h));
    EXPECT_TRUE(t.reset(1us));
    EXPECT_TRUE(*told.recv());
  });
}

TEST_P(Time, AfterFuncThatIsStoppedOrDestroyedDoesNotRun) {
  std::atomic<int> calls{0};
  run([&] {
    const auto f = [&] { ++calls; };
    timer a = after_func(200us, f);
    const bool prevented = a.stop();
    EXPECT_FALSE(a.stop());
    coir::sleep_for(1ms);
    EXPECT_EQ(calls, prevented ? 0 : 1);
    static_cast<void>(after_func(1h, f));
    timer b = after_func(1h, f);
    b = timer{1h};
  });
  EXPECT_LE(calls, 1);
}

TEST_P(Time, AfterFuncOutsideARuntimeIsRefused) {
  EXPECT_THROW(static_cast<void>(after_func(1ms, [] {})), coir::not_in_runtime);
}

TEST_P(Time, APendingAfterFuncDoesNotKeepRunFromDrainingAndItsClosureIsDestroyed) {
  const auto held = std::make_shared<int>(1);
  std::atomic<int> calls{0};
  std::optional<timer> kept;
  run([&] {
    timer local = after_func(1h, [held, &calls] { ++calls; });
    kept = after_func(1h, [held, &calls] { ++calls; });
  });
  EXPECT_EQ(held.use_count(), 2);
  EXPECT_TRUE(kept->stop());
  EXPECT_FALSE(kept->stop());
  EXPECT_FALSE(kept->reset(0s));  // there is nowhere to run it
  EXPECT_FALSE(kept->reset(100us));
  kept.reset();
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(calls, 0);
}

TEST_P(Time, ATimerMayBeDestroyedInsideItsOwnCallback) {
  const auto held = std::make_shared<int>(7);
  run([&] {
    const chan<int> seen = make_chan<int>();
    auto owner = std::make_shared<std::optional<timer>>();
    const chan<void> set = make_chan<void>(1);
    owner->emplace(after_func(10us, [owner, held, seen, set] {
      set.recv();
      owner->reset();  // this closure lives on until it has returned
      coir::yield();
      seen.send(*held);
    }));
    set.send();
    EXPECT_EQ(*seen.recv(), 7);
  });
  EXPECT_EQ(held.use_count(), 1);
}

TEST_P(Time, ATimerMayBeResetInsideItsOwnCallback) {
  run([] {
    const chan<int> seen = make_chan<int>();
    std::optional<timer> t;
    const chan<void> set = make_chan<void>(1);
    int n = 0;
    t.emplace(after_func(10us, [&] {
      if (n == 0) set.recv();
      const int turn = ++n;
      if (turn < 20) t->reset(10us);
      seen.send(turn);
    }));
    set.send();
    for (int i = 1; i <= 20; ++i) EXPECT_EQ(*seen.recv(), i);
    EXPECT_FALSE(t->stop());
  });
}

// Each is either called or stopped, whatever the moment; the closure is always destroyed, by a fiber or thread.
TEST_P(Time, AfterFuncRacingItsStopRunsOrIsStopped) {
  const auto held = std::make_shared<int>(1);
  std::atomic<int> calls{0};
  std::atomic<int> stopped{0};
  const int rounds = scaled(500);
  run([&] {
    for (int i = 0; i < rounds; ++i) {
      timer t = after_func(std::chrono::microseconds(i % 40), [held, &calls] { ++calls; });
      if (i % 2 == 0) coir::sleep_for(std::chrono::microseconds(i % 50));
      if (i % 16 == 3) {
        std::thread foreign([&] { stopped += t.stop() ? 1 : 0; });
        foreign.join();
      } else {
        stopped += t.stop() ? 1 : 0;
      }
    }
  });
  EXPECT_EQ(calls + stopped, rounds);
  EXPECT_EQ(held.use_count(), 1);
}

TEST_P(Time, AfterFuncThatAnotherThreadResetsRunsInItsOwnRuntimeOrNotAtAll) {
  for (int i = 0; i < scaled(100); ++i) {
    const auto held = std::make_shared<int>(1);
    std::atomic<int> calls{0};
    std::optional<timer> t;
    std::atomic<bool> made{false};
    std::thread foreign([&] {
      until([&] { return made.load(); });
      for (int k = 0; k < 10; ++k) t->reset(std::chrono::microseconds(k * i % 20));
    });
    run([&] {
      const auto* here = &coir::runtime::current();
      t.emplace(after_func(1h, [held, here, &calls] {
        EXPECT_EQ(&coir::runtime::current(), here);
        ++calls;
      }));
      made = true;
      if (i % 2 == 0) coir::sleep_for(std::chrono::microseconds(i));
    });
    foreign.join();
    const int after_run = calls;
    t.reset();
    EXPECT_EQ(calls, after_run);
    EXPECT_EQ(held.use_count(), 1);
    if (HasFailure()) break;
  }
}

// ---- deadlock ------------------------------------------------------------------------------------------------------

TEST_P(Time, APendingTimerIsNoDeadlock) {
  EXPECT_NO_THROW(run([] { timer{20ms}.c().recv(); }));
  const timer outside{20ms};
  EXPECT_NO_THROW(run([&] { outside.c().recv(); }));
  EXPECT_NO_THROW(run([] {
    const chan<int> c = make_chan<int>();
    timer t = after_func(20ms, [c] { c.send(1); });
    c.recv();
  }));
}

TEST_P(Time, AStoppedTimerIsADeadlock) {
  EXPECT_THROW(run([] {
                 timer t{1h};
                 t.stop();
                 t.c().recv();
               }),
               coir::deadlock);
  EXPECT_THROW(run([] {
                 static_cast<void>(after(1h));
                 after(1ms).recv();
                 make_chan<int>().recv();
               }),
               coir::deadlock);
  timer outside{1h};
  outside.stop();
  EXPECT_THROW(run([&] { outside.c().recv(); }), coir::deadlock);
}

TEST_P(Time, ATimerThatAThreadStopsMayLeaveADeadlock) {
  std::optional<timer> t;
  std::atomic<bool> waiting{false};
  std::thread foreign([&] {
    until([&] { return waiting.load(); });
    t->stop();
  });
  EXPECT_THROW(run([&] {
                 t.emplace(1h);
                 const ticks c = t->c();
                 waiting = true;
                 c.recv();
               }),
               coir::deadlock);
  foreign.join();
}

// ---- memory --------------------------------------------------------------------------------------------------------

TEST_P(Time, AMillionDroppedFarTimersHoldNoMemory) {
  const auto resident_pages = [] {
    std::ifstream in("/proc/self/statm");
    long size = 0, resident = 0;
    in >> size >> resident;
    return resident;
  };
  const auto flood = [&] {
    const long before = resident_pages();
    for (int i = 0; i < scaled(300'000); ++i) {
      static_cast<void>(after(1h));
      timer t{1h};
      t.reset(2h);
    }
    if (!coir_test::address_sanitizer && !coir_test::thread_sanitizer) {
      EXPECT_LT(resident_pages() - before, 1'000);
    }
  };
  in_both(flood);
  run([&] {  // dropped by another thread than set them
    const long before = resident_pages();
    const chan<ticks> far = make_chan<ticks>(100);
    std::thread foreign([&] {
      for (const ticks& c : far) EXPECT_TRUE(silent(c));
    });
    for (int i = 0; i < scaled(100'000); ++i) far.send(after(1h));
    far.close();
    foreign.join();
    if (!coir_test::address_sanitizer && !coir_test::thread_sanitizer) {
      EXPECT_LT(resident_pages() - before, 1'000);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, Time, coir_test::processors, coir_test::processors_name);

}  // namespace
