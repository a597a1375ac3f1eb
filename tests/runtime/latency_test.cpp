// What waits is served by time waited: told by how many slices of computing fibers ended while it waited, which a busy
// machine does not change.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include <coir/metrics.hpp>

#include "counted.hpp"

namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

/// Four fibers on one processor that compute for 2 ms, yield, and so on; and how many of their slices have ended.
class slices {
 public:
  slices() {
    for (int i = 0; i < 4; ++i) {
      rt_.go([this] {
        while (!stop_) {
          for (const auto end = clock::now() + 2ms; clock::now() < end;) {
          }
          note_end(clock::now());
          coir::yield();
        }
      });
    }
  }
  ~slices() {
    stop_ = true;
    rt_.wait();
  }
  slices(const slices&) = delete;
  slices& operator=(const slices&) = delete;

  coir::runtime& runtime() { return rt_; }

  /// Something is due then.
  void watch_for(clock::time_point when) {
    ended_since_ = 0;
    due_ = when;
  }

  /// Slices that have ended since, but for the one that ran at that time.
  int others_ended() const { return std::max(ended_since_ - 1, 0); }

 private:
  static coir::options one_processor() {
    coir::options o;
    o.processors = 1;
    return o;
  }

  void note_end(clock::time_point now) {
    if (now >= due_.load()) ++ended_since_;
  }

  coir::runtime rt_{one_processor()};
  std::atomic<bool> stop_{false};
  std::atomic<clock::time_point> due_{clock::time_point::max()};
  std::atomic<int> ended_since_{0};
};

int median(std::vector<int> of) {
  std::nth_element(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2), of.end());
  return of[of.size() / 2];
}

constexpr int times = 21;

TEST(Latency, ASleeperRunsAtTheEndOfTheSliceInWhichItsTimeComes) {
  slices beside;
  std::vector<int> waited = beside.runtime()
                                .spawn([&] {
                                  std::vector<int> all;
                                  for (int i = 0; i < times; ++i) {
                                    const auto due = clock::now() + 1ms;
                                    beside.watch_for(due);
                                    coir::sleep_until(due);
                                    all.push_back(beside.others_ended());
                                  }
                                  return all;
                                })
                                .get();
  EXPECT_LE(median(waited), 1);
}

TEST(Latency, WhatAThreadInjectsRunsWithinTwoSlices) {
  slices beside;
  std::vector<int> waited;
  for (int i = 0; i < times; ++i) {
    beside.watch_for(clock::now());
    waited.push_back(beside.runtime().spawn([&] { return beside.others_ended(); }).get());
  }
  EXPECT_LE(median(waited), 2);
}

// Those that compute and yield are behind those that are woken.
TEST(Latency, AFiberThatIsWokenDoesNotWaitBehindThoseThatHaveYielded) {
  slices beside;
  std::vector<int> waited = beside.runtime()
                                .spawn([&] {
                                  std::vector<int> all;
                                  for (int i = 0; i < times; ++i) {
                                    coir::task<int> woken = coir::spawn([&] {
                                      coir::sleep_for(1ms);
                                      return 0;
                                    });
                                    coir::task<int> waits = coir::spawn([&woken, &beside] {
                                      woken.wait();
                                      return beside.others_ended();
                                    });
                                    beside.watch_for(clock::now() + 1ms);
                                    all.push_back(waits.get());
                                  }
                                  return all;
                                })
                                .get();
  EXPECT_LE(median(waited), 2);
}

// Its wait after a look that found nothing may end late. That a thread wakes it ends that, too: the next looks are on
// time, though the one before had found nothing.
TEST(Latency, TheMonitorLooksAgainAndAgainOnceItIsWoken) {
  coir::options o;
  o.processors = 1;
  coir::runtime rt{o};
  std::vector<int> looks;
  for (int i = 0; i < times; ++i) {
    std::this_thread::sleep_for(50ms);  // it sleeps by now, or else it is a little easier
    const std::uint64_t before = rt.metrics().looks;
    rt.run([] {
      coir::go([] {});  // which wakes it, and waits
      for (const auto end = clock::now() + 10ms; clock::now() < end;) {
      }
    });
    looks.push_back(static_cast<int>(rt.metrics().looks - before));
  }
  EXPECT_GE(median(looks), 4);  // one each 0.4 ms. If the first were not on time: 0 or 1
}

}  // namespace
