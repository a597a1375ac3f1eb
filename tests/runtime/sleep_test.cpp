// sleep_for and sleep_until: never early, in order, any duration, cancellable; from fibers and plain threads.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "counted.hpp"

namespace {

using coir_test::until_blocked;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

class Sleep : public runtime_test::leak_checked {};

template <class D>
void expect_sleeps_at_least(D d) {
  const auto begin = clock::now();
  coir::sleep_for(d);
  EXPECT_GE(clock::now() - begin, d);
}

TEST_P(Sleep, IsNeverEarly) {
  run([] {
    for (const int us : {1, 10, 50, 100, 500, 1000, 3000}) expect_sleeps_at_least(std::chrono::microseconds(us));
    expect_sleeps_at_least(1ns);
    expect_sleeps_at_least(std::chrono::duration<double, std::milli>(1.5));
    const auto wake = clock::now() + 2ms;
    coir::sleep_until(wake);
    EXPECT_GE(clock::now(), wake);
  });
}

TEST_P(Sleep, IsNeverEarlyWithManySleepers) {
  run([] {
    std::vector<coir::task<void>> tasks;
    for (int i = 0; i < coir_test::scaled(2000); ++i)
      tasks.push_back(coir::spawn([i] { expect_sleeps_at_least(std::chrono::microseconds(i * 37 % 5000)); }));
    for (coir::task<void>& t : tasks) t.get();
  });
}

TEST_P(Sleep, NoTimeOrLessReturnsAtOnce) {
  // It would block for ever, or count for the deadlock, if it parked.
  run([] {
    coir::sleep_for(0s);
    coir::sleep_for(-1s);
    coir::sleep_for(std::chrono::hours::min());
    coir::sleep_for(std::chrono::nanoseconds::min());
    coir::sleep_for(std::chrono::duration<double>(-1));
    coir::sleep_for(std::chrono::duration<double>(std::numeric_limits<double>::quiet_NaN()));
    coir::sleep_for(std::chrono::duration<double>(-std::numeric_limits<double>::infinity()));
    coir::sleep_until(clock::time_point{});
    coir::sleep_until(clock::time_point::min());
    coir::sleep_until(std::chrono::system_clock::time_point{});
    coir::sleep_until(std::chrono::system_clock::time_point::min());
  });
}

TEST_P(Sleep, TheLongestDurationsSleepOnAndCanBeCancelled) {
  run([] {
    std::vector<coir::task<void>> tasks;
    tasks.push_back(coir::spawn([] { coir::sleep_for(std::chrono::hours::max()); }));
    tasks.push_back(coir::spawn([] { coir::sleep_for(std::chrono::nanoseconds::max()); }));
    tasks.push_back(coir::spawn([] { coir::sleep_for(std::chrono::duration<double>(1e300)); }));
    tasks.push_back(
        coir::spawn([] { coir::sleep_for(std::chrono::duration<float>(std::numeric_limits<float>::infinity())); }));
    tasks.push_back(coir::spawn([] { coir::sleep_until(clock::time_point::max()); }));
    tasks.push_back(coir::spawn([] { coir::sleep_until(std::chrono::system_clock::time_point::max()); }));
    until_blocked(tasks);
    coir::sleep_for(5ms);
    for (const coir::task<void>& t : tasks) EXPECT_EQ(t.status(), coir::task_status::blocked);
    for (const coir::task<void>& t : tasks) t.request_stop();
    for (coir::task<void>& t : tasks) EXPECT_THROW(t.get(), coir::task_cancelled);
  });
}

TEST_P(Sleep, EndsAtTheDeadlineOfAnyClock) {
  run([] {
    const auto wake = std::chrono::system_clock::now() + 3ms;
    coir::sleep_until(wake);
    EXPECT_GE(std::chrono::system_clock::now(), wake);
  });
}

TEST_P(Sleep, EvenTheShortestIsCancelled) {
  run([] {
    coir::task<void> t = coir::spawn([] {
      for (;;) coir::sleep_for(1ns);
    });
    t.request_stop();
    EXPECT_THROW(t.get(), coir::task_cancelled);
  });
}

TEST_P(Sleep, IsCancelledWhileItSleeps) {
  run([] {
    for (int i = 0; i < coir_test::scaled(500); ++i) {
      coir::task<void> t = coir::spawn([] { coir::sleep_for(1h); });
      if (i % 2 == 0) until_blocked(t);
      t.request_stop();
      ASSERT_THROW(t.get(), coir::task_cancelled);
    }
  });
}

TEST_P(Sleep, ACancellationThatRacesTheTimerLosesNothing) {
  run([] {
    int slept = 0, cancelled = 0;
    const int rounds = coir_test::scaled(2000);
    for (int i = 0; i < rounds; ++i) {
      coir::task<void> t = coir::spawn([i] { coir::sleep_for(std::chrono::microseconds(i % 100 + 1)); });
      if (i % 3 != 0) coir::sleep_for(std::chrono::microseconds(i % 90 + 1));
      t.request_stop();
      try {
        t.get();
        ++slept;
      } catch (const coir::task_cancelled&) {
        ++cancelled;
      }
    }
    EXPECT_EQ(slept + cancelled, rounds);
  });
}

// On one processor that nobody retakes the order is certain, however loaded the machine.
class SleepOrder : public testing::Test {
 protected:
  using order = std::vector<int>;

  /// Starts fibers in a jumbled order that sleep until begin, begin + gap, and so on; returns in which order they woke.
  /// Nothing if some had not fallen asleep before the first was due. `together`: nobody looks before all are due.
  static std::optional<order> wake(std::chrono::microseconds lead, std::chrono::microseconds gap, bool together) {
    return coir_test::on_one_processor([&]() -> std::optional<order> {
      std::mutex lock;  // one processor or not, fibers are no happens-before for each other
      order woken;
      std::vector<coir::task<void>> tasks;
      const auto begin = clock::now() + lead;
      for (const int i : {7, 3, 0, 9, 4, 1, 8, 2, 6, 5}) {
        tasks.push_back(coir::spawn([&, begin, i] {
          coir::sleep_until(begin + i * gap);
          const std::lock_guard locked(lock);
          woken.push_back(i);
        }));
      }
      const auto asleep = [&] {
        return std::all_of(tasks.begin(), tasks.end(),
                           [](const auto& t) { return t.status() == coir::task_status::blocked; });
      };
      while (!asleep() && clock::now() < begin) coir::yield();
      const bool in_time = asleep() && clock::now() < begin;
      if (in_time && together) {
        while (clock::now() <= begin + 10 * gap) {
        }
      }
      for (coir::task<void>& t : tasks) t.get();
      if (!in_time) return std::nullopt;
      return woken;
    });
  }

  static void expect_in_order(std::chrono::microseconds gap, bool together) {
    std::optional<order> woken;
    for (auto lead = 2000us; !woken; lead *= 2) woken = wake(lead, gap, together);
    EXPECT_EQ(*woken, (order{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
};

TEST_F(SleepOrder, IsThatOfTheDeadlines) { expect_in_order(2000us, false); }
TEST_F(SleepOrder, IsThatOfTheDeadlinesForThoseThatAreDueTogetherToo) { expect_in_order(10us, true); }

TEST_P(Sleep, WorksOnAPlainThread) {
  expect_sleeps_at_least(1ms);
  coir::sleep_for(0s);
  coir::sleep_for(-1s);
  const auto wake = clock::now() + 2ms;
  coir::sleep_until(wake);
  EXPECT_GE(clock::now(), wake);
  run([] {
    std::atomic<bool> done{false};
    std::thread foreign([&] {
      expect_sleeps_at_least(3ms);
      done = true;
    });
    while (!done) coir::sleep_for(100us);
    foreign.join();
  });
}

TEST_P(Sleep, LetsOthersRunMeanwhile) {
  run([] {
    std::atomic<bool> stop{false};
    std::atomic<long> turns{0};
    coir::task<void> other = coir::spawn([&] {
      while (!stop) {
        ++turns;
        coir::yield();
      }
    });
    coir::sleep_for(20ms);
    stop = true;
    other.get();
    EXPECT_GT(turns, 10);
  });
}

TEST_P(Sleep, AnEarlierDeadlineThatComesLaterIsHonoured) {
  run([] {
    coir::task<void> late = coir::spawn([] { coir::sleep_for(1h); });
    until_blocked(late);
    const auto begin = clock::now();
    coir::sleep_for(2ms);
    EXPECT_LT(clock::now() - begin, 30s);  // it would have been an hour
    late.request_stop();
  });
}

// The timer of a fiber that has migrated lies with another processor.
TEST_P(Sleep, TimersOfFibersThatMigrateFireOrAreCancelledOnce) {
  run([] {
    std::vector<coir::task<void>> tasks;
    for (int i = 0; i < 40; ++i) {
      tasks.push_back(coir::spawn([i] {
        for (int k = 0; k < coir_test::scaled(300); ++k) {
          coir::task<void> t = coir::spawn([k] { coir::sleep_for(std::chrono::microseconds(k % 50)); });
          static_cast<void>(t.wait_for(std::chrono::microseconds((k * 7 + i) % 60)));
          if (k % 3 == 0) coir::yield();
        }
      }));
    }
    for (coir::task<void>& t : tasks) t.get();
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, Sleep, coir_test::processors, coir_test::processors_name);

}  // namespace
