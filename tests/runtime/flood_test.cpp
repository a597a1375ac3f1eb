// Floods: far more ready fibers than fit into the processors' queues, and more coming all the time. Timers fire beside
// them, and what overflowed has its turn.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <vector>

#include <coir/chan.hpp>
#include <coir/metrics.hpp>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using coir_test::scaled;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

class Flood : public runtime_test::leak_checked {};

constexpr int flood = coir_test::thread_sanitizer ? 1'000 : 5'000;  // a ring holds 256

/// Returns when it has ended.
clock::time_point compute(std::chrono::microseconds time) {
  const auto end = clock::now() + time;
  while (clock::now() < end) {
  }
  return end;
}

/// Fibers that each start another one when they end, so that `flood` of them are ready all the time.
class endless_flood {
 public:
  explicit endless_flood(coir::runtime& rt) : rt_(rt) {
    rt_.run([this] {
      for (int i = 0; i < flood; ++i) coir::go([this] { drop(); });
    });
  }
  ~endless_flood() {
    stop_ = true;
    rt_.wait();
  }
  endless_flood(const endless_flood&) = delete;
  endless_flood& operator=(const endless_flood&) = delete;

  long run() const { return run_; }

  /// Notes how many have run when one of them first sees that time; 0: none has, yet.
  void watch_for(clock::time_point when) { when_ = when.time_since_epoch().count(); }
  long run_by_then() const { return at_when_; }

 private:
  void drop() {
    const auto end = compute(10us);
    const long nth = ++run_;
    if (const auto when = when_.load(); when != 0 && end.time_since_epoch().count() >= when) {
      long none = 0;
      at_when_.compare_exchange_strong(none, nth);
    }
    if (!stop_) coir::go([this] { drop(); });
  }

  coir::runtime& rt_;
  std::atomic<bool> stop_{false};
  std::atomic<long> run_{0};
  std::atomic<clock::rep> when_{0};
  std::atomic<long> at_when_{0};
};

// A starved timer never fires, and the test's timeout tells.
TEST_P(Flood, TimersFire) {
  coir::runtime rt{opts()};
  endless_flood beside(rt);
  rt.spawn([] {
      for (int i = 0; i < 20; ++i) coir::sleep_for(500us);
    }).get();
}

// With one processor it can be told by what else ran: of a flood of thousands but a few, since the timer was due.
TEST_P(Flood, ATimerIsNotQueuedBehindIt) {
  if (GetParam() != 1) GTEST_SKIP() << "with other processors what ran meanwhile does not tell";
  coir::runtime rt{opts()};
  endless_flood beside(rt);
  const long late = rt.spawn([&] {
                        const auto due = clock::now() + 5ms;
                        beside.watch_for(due);
                        coir::sleep_until(due);
                        return beside.run_by_then() == 0 ? 0 : beside.run() - beside.run_by_then();
                      }).get();
  EXPECT_LT(late, flood / 2);
}

// The first ones have overflowed, and newer ones keep coming.
TEST_P(Flood, FreshFibersThatOverflowedAQueueRun) {
  coir::runtime rt{opts()};
  constexpr int first = 300;
  std::atomic<int> first_run{0};
  std::atomic<int> pending{0};
  rt.run([&] {
    for (int i = 0; i < first; ++i) coir::go([&] { ++first_run; });
    while (first_run < first) {
      for (int i = 0; i < 300 && pending < flood; ++i) {
        ++pending;
        coir::go([&] { --pending; });
      }
      coir::yield();
    }
  });
  rt.wait();
}

TEST_P(Flood, ReadyFibersThatOverflowedAQueueTakeTurns) {
  run([] {
    std::vector<std::atomic<int>> turns(static_cast<std::size_t>(flood));
    std::atomic<bool> stop{false};
    std::vector<coir::task<void>> tasks;
    for (std::atomic<int>& mine : turns) {
      tasks.push_back(coir::spawn([&] {
        while (!stop) {
          ++mine;
          coir::yield();
        }
      }));
    }
    coir_test::until([&] { return std::all_of(turns.begin(), turns.end(), [](const auto& n) { return n >= 5; }); });
    stop = true;
    for (auto& t : tasks) t.get();
  });
}

/// How many fibers were started in a loop, and how many of them had run when it ended.
struct keeping_up {
  clock::time_point end = clock::now() + 300ms;
  std::atomic<long> started{0};
  std::atomic<long> run{0};

  bool more() const { return clock::now() < end; }
  void start(std::chrono::microseconds length = 0us) {
    ++started;
    coir::go([this, length] {
      if (length != 0us) compute(length);
      ++run;
    });
  }
};

// Whoever starts them is always ready to go on, one of the two, and comes before what has not started.
TEST_P(Flood, FibersThatAPairStartsRunWhileItGoesOn) {
  keeping_up count;
  run([&] {
    auto ch = coir::make_chan<int>(128);
    coir::go([&count, ch] {
      while (count.more()) ch.send(1);
      ch.close();
    });
    while (ch.recv()) count.start();
    EXPECT_GT(count.run, count.started / 2);
  });
  EXPECT_EQ(count.run, count.started);
}

// The newest run first: each time that whoever starts them blocks, it is for the last.
TEST_P(Flood, FibersThatAreNotWaitedForRunBesideThoseThatAre) {
  keeping_up count;
  run([&] {
    while (count.more()) {
      count.start();
      coir::spawn([] {}).get();
    }
    EXPECT_GT(count.run, count.started / 2);
  });
  EXPECT_EQ(count.run, count.started);
}

long tree(int depth) {
  if (depth == 0) return 1;
  auto left = coir::spawn([depth] { return tree(depth - 1); });
  auto right = coir::spawn([depth] { return tree(depth - 1); });
  return left.get() + right.get();
}

// Beside a pair that always goes on trees of fibers run, and one after the other: a few stacks, not one for each node.
TEST_P(Flood, TreesBesideAPairRunAndDoNotGetBroad) {
  std::atomic<bool> done{false};
  run([&] {
    auto there = coir::make_chan<void>(), back = coir::make_chan<void>();
    coir::go([there, back] {
      while (there.recv()) back.send();
    });
    coir::go([&done, there, back] {
      while (!done) {
        there.send();
        back.recv();
      }
      there.close();
    });
    const int trees = scaled(10'000);
    std::vector<coir::task<long>> roots;
    roots.reserve(static_cast<std::size_t>(trees));
    for (int i = 0; i < trees; ++i) roots.push_back(coir::spawn([] { return tree(4); }));
    long leaves = 0;
    for (coir::task<long>& root : roots) leaves += root.get();
    EXPECT_EQ(leaves, 16L * trees);
    // Of 310,000 fibers. Instrumented, a tree takes long enough for others to get their turn within it.
    EXPECT_LT(coir::metrics().stacks, coir_test::address_sanitizer ? 6'000U : 3'000U);
    done = true;
  });
}

// Whoever starts them computes as long as what is started, and many do.
TEST_P(Flood, FibersThatManyStartRunWhileTheyGoOn) {
  keeping_up count;
  run([&] {
    std::vector<coir::task<void>> starters;
    for (int i = 0; i < 20; ++i) {
      starters.push_back(coir::spawn([&] {
        while (count.more()) {
          compute(70us);
          count.start(20us);
          coir::yield();
        }
      }));
    }
    for (coir::task<void>& s : starters) s.get();
    EXPECT_GT(count.run, count.started / 2);
  });
  EXPECT_EQ(count.run, count.started);
}

INSTANTIATE_TEST_SUITE_P(Processors, Flood, coir_test::processors, coir_test::processors_name);

}  // namespace
