// Floods: far more ready fibers than fit into the processors' queues, and more coming all the time. Timers fire beside
// them, and what overflowed has its turn.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <vector>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using coir_test::scaled;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

class Flood : public runtime_test::leak_checked {};

constexpr int flood = coir_test::thread_sanitizer ? 1'000 : 5'000;  // a ring holds 256

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
    const auto end = clock::now() + 10us;
    while (clock::now() < end) {
    }
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
  if (GetParam() != 1) return;
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

INSTANTIATE_TEST_SUITE_P(Processors, Flood, coir_test::processors, coir_test::processors_name);

}  // namespace
