// Fibers really run at once, and nobody is starved: by pairs that yield or talk to each other, by floods, by a busy
// loop.
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using coir_test::until_blocked;
using runtime_test::gate;
using namespace std::chrono_literals;

class Parallel : public runtime_test::leak_checked {};

constexpr int meetings = 4;  // with more processors than cores each costs some of the operating system's time slices

/// Spins until `all` have come, without giving its processor away.
void meet(std::atomic<unsigned>& arrived, unsigned all) {
  ++arrived;
  while (arrived < all) {
  }
}

TEST_P(Parallel, AsManySpinningFibersAsProcessorsRunAtOnce) {
  for (int i = 0; i < meetings; ++i) {
    run([&] {
      std::atomic<unsigned> arrived{0};
      std::vector<coir::task<void>> tasks;
      for (unsigned k = 1; k < GetParam(); ++k) tasks.push_back(coir::spawn([&] { meet(arrived, GetParam()); }));
      meet(arrived, GetParam());
      for (coir::task<void>& t : tasks) t.get();
    });
  }
}

TEST_P(Parallel, AsManyFromAForeignThreadRunAtOnce) {
  coir::runtime rt{opts()};
  for (int i = 0; i < meetings; ++i) {
    std::atomic<unsigned> arrived{0};
    std::vector<coir::task<void>> tasks;
    for (unsigned k = 0; k < GetParam(); ++k) tasks.push_back(rt.spawn([&] { meet(arrived, GetParam()); }));
    for (coir::task<void>& t : tasks) t.get();
  }
}

TEST_P(Parallel, AsManyThatAreWokenTogetherRunAtOnce) {
  run([&] {
    for (int i = 0; i < meetings; ++i) {
      gate door;
      std::atomic<unsigned> arrived{0};
      std::vector<coir::task<void>> tasks;
      for (unsigned k = 1; k < GetParam(); ++k) {
        tasks.push_back(coir::spawn([&] {
          door.pass();
          meet(arrived, GetParam());
        }));
      }
      until_blocked(tasks);
      door.open();
      meet(arrived, GetParam());
      for (coir::task<void>& t : tasks) t.get();
    }
  });
}

TEST_P(Parallel, AsManyThatHaveSleptRunAtOnce) {
  run([&] {
    std::atomic<unsigned> arrived{0};
    std::vector<coir::task<void>> tasks;
    for (unsigned k = 0; k < GetParam(); ++k) {
      tasks.push_back(coir::spawn([&] {
        coir::sleep_for(2ms);
        meet(arrived, GetParam());
      }));
    }
    for (coir::task<void>& t : tasks) t.get();
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, Parallel, coir_test::processors, coir_test::processors_name);

// ---- starvation ----------------------------------------------------------------------------------------------------

/// What keeps all processors busy until it is told to stop, but enters the runtime all the time.
enum class storm { yielding_pairs, ping_pong_pairs, spawning };

class Fairness : public testing::TestWithParam<std::tuple<unsigned, storm>> {
 protected:
  coir::options opts() const {
    coir::options o;
    o.processors = std::get<0>(GetParam());
    return o;
  }

  /// Twice as many pairs as there are processors, so that each has always something else to run.
  std::vector<coir::task<void>> begin_storm(coir::runtime& rt, const std::atomic<bool>& stop) const {
    std::vector<coir::task<void>> tasks;
    for (unsigned i = 0; i < 2 * opts().processors; ++i) {
      switch (std::get<1>(GetParam())) {
        case storm::yielding_pairs:
          for (int k = 0; k < 2; ++k) {
            tasks.push_back(rt.spawn([&stop] {
              while (!stop) coir::yield();
            }));
          }
          break;
        case storm::ping_pong_pairs:
          tasks.push_back(rt.spawn([&stop] {
            gate ping, pong;
            const coir::task<void> other = coir::spawn([&] {
              for (;;) {
                ping.pass();
                ping.shut();
                if (stop) return;
                pong.open();
              }
            });
            while (!stop) {
              ping.open();
              if (!stop) static_cast<void>(pong.pass_for(1s));
              pong.shut();
            }
            ping.open();
            other.wait();
          }));
          break;
        case storm::spawning:
          tasks.push_back(rt.spawn([&stop] {
            while (!stop) {
              coir::go([] {});
              coir::yield();
            }
          }));
          break;
      }
    }
    return tasks;
  }
};

// In each of these a starved fiber never ends, and the test's timeout tells.

TEST_P(Fairness, AReadyPeerRuns) {
  coir::runtime rt{opts()};
  std::atomic<bool> stop{false};
  const auto tasks = begin_storm(rt, stop);
  coir::task<int> peer = rt.spawn([] {
    for (int i = 0; i < 100; ++i) coir::yield();
    return 1;
  });
  EXPECT_EQ(peer.get(), 1);
  stop = true;
}

TEST_P(Fairness, AFreshPeerRuns) {
  coir::runtime rt{opts()};
  std::atomic<bool> stop{false};
  const auto tasks = begin_storm(rt, stop);
  coir::task<int> peer = rt.spawn([] {
    for (int i = 0; i < 20; ++i) coir::spawn([] {}).get();
    return 1;
  });
  EXPECT_EQ(peer.get(), 1);
  stop = true;
}

TEST_P(Fairness, TheInjectionQueueIsServed) {
  coir::runtime rt{opts()};
  std::atomic<bool> stop{false};
  const auto tasks = begin_storm(rt, stop);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(rt.spawn([i] { return i; }).get(), i);
  stop = true;
}

TEST_P(Fairness, TimersFire) {
  coir::runtime rt{opts()};
  std::atomic<bool> stop{false};
  const auto tasks = begin_storm(rt, stop);
  coir::task<int> sleeper = rt.spawn([] {
    for (int i = 0; i < 10; ++i) coir::sleep_for(200us);
    return 1;
  });
  EXPECT_EQ(sleeper.get(), 1);
  stop = true;
}

TEST_P(Fairness, AFiberWokenByAThreadRuns) {
  coir::runtime rt{opts()};
  std::atomic<bool> stop{false};
  const auto tasks = begin_storm(rt, stop);
  for (int i = 0; i < 10; ++i) {
    gate door;
    coir::task<void> peer = rt.spawn([&] { door.pass(); });
    until_blocked(peer);
    door.open();
    peer.get();
  }
  stop = true;
}

std::string case_name(const testing::TestParamInfo<std::tuple<unsigned, storm>>& info) {
  const char* const names[] = {"YieldingPairs", "PingPongPairs", "Spawning"};
  return names[static_cast<int>(std::get<1>(info.param))] + std::to_string(std::get<0>(info.param)) + "P";
}

INSTANTIATE_TEST_SUITE_P(Storms, Fairness,
                         testing::Combine(coir_test::processors,
                                          testing::Values(storm::yielding_pairs, storm::ping_pong_pairs,
                                                          storm::spawning)),
                         case_name);

// ---- a busy loop that never enters the runtime ----------------------------------------------------------------------

class SpawnChain : public coir_test::with_processors {
 protected:
  static void spin() {
    const auto end = std::chrono::steady_clock::now() + 100us;
    while (std::chrono::steady_clock::now() < end) {
    }
  }
};

// Each starts the next and yields: there is always a fresh fiber, which goes before those that have yielded.
TEST_P(SpawnChain, DoesNotStarveThoseThatHaveYielded) {
  std::atomic<int> resumed{0};
  std::function<void()> link = [&] {
    if (resumed < 10) coir::go(link);
    spin();
    coir::yield();
    ++resumed;
  };
  coir::runtime rt{opts()};
  rt.go(link);
  coir_test::until([&] { return resumed >= 10; });
  rt.wait();
}

// Fresh fibers at each pick that is slow: the oldest of them has its turn each millisecond, and others too.
TEST_P(SpawnChain, DoesNotStarveTheInjectionQueue) {
  coir::runtime rt{opts()};
  std::atomic<bool> stop{false};
  for (unsigned i = 0; i < GetParam(); ++i) {
    rt.go([&] {
      while (!stop) {
        coir::go([] { spin(); });
        coir::go([] { spin(); });
        coir::yield();
      }
    });
  }
  for (int i = 0; i < 3; ++i) rt.spawn([] {}).get();
  stop = true;
  rt.wait();
}

INSTANTIATE_TEST_SUITE_P(Processors, SpawnChain, coir_test::processors, coir_test::processors_name);

class BusyLoop : public testing::TestWithParam<unsigned> {
 protected:
  coir::options opts() const {
    coir::options o;
    o.processors = GetParam();
    return o;
  }

  /// Spins until the flag is set; false if that takes so long that it will not come.
  static bool spin_until(const std::atomic<bool>& flag) {
    const auto give_up = std::chrono::steady_clock::now() + 20s;
    while (!flag && std::chrono::steady_clock::now() < give_up) {
    }
    return flag;
  }
};

TEST_P(BusyLoop, DoesNotStarveWhatItsFiberMadeReady) {
  coir::run(opts(), [] {
    gate door;
    std::atomic<bool> ran{false};
    coir::task<void> peer = coir::spawn([&] {
      door.pass();
      ran = true;
    });
    until_blocked(peer);
    door.open();
    EXPECT_TRUE(spin_until(ran));
  });
}

TEST_P(BusyLoop, DoesNotStarveAFewReadyFibers) {
  coir::run(opts(), [] {
    gate door;
    std::atomic<int> ran{0};
    std::atomic<bool> all_ran{false};
    std::vector<coir::task<void>> peers;
    for (int i = 0; i < 3; ++i) {
      peers.push_back(coir::spawn([&] {
        door.pass();
        if (++ran == 3) all_ran = true;
      }));
    }
    until_blocked(peers);
    door.open();
    EXPECT_TRUE(spin_until(all_ran));
  });
}

TEST_P(BusyLoop, DoesNotStarveWhatItsFiberSpawned) {
  coir::run(opts(), [] {
    for (int i = 0; i < 20; ++i) {
      std::atomic<bool> ran{false};
      coir::task<void> child = coir::spawn([&] { ran = true; });
      EXPECT_TRUE(spin_until(ran));
    }
  });
}

TEST_P(BusyLoop, DoesNotStarveTheInjectionQueue) {
  coir::runtime rt{opts()};
  std::atomic<bool> started{false}, ran{false};
  coir::task<bool> busy = rt.spawn([&] {
    started = true;
    return spin_until(ran);
  });
  coir_test::until([&] { return started.load(); });
  rt.go([&] { ran = true; });
  EXPECT_TRUE(busy.get());
}

TEST_P(BusyLoop, DoesNotStarveTimersOfItsProcessor) {
  coir::run(opts(), [] {
    for (int i = 0; i < 5; ++i) {
      std::atomic<bool> woke{false};
      coir::task<void> sleeper = coir::spawn([&] {
        coir::sleep_for(5ms);
        woke = true;
      });
      while (sleeper.status() == coir::task_status::queued) coir::yield();
      EXPECT_TRUE(spin_until(woke));
    }
  });
}

TEST_P(BusyLoop, DoesNotStarveYieldersBehindIt) {
  coir::run(opts(), [] {
    std::atomic<bool> done{false};
    std::vector<coir::task<void>> yielders;
    std::atomic<int> left{10};
    for (int i = 0; i < 10; ++i) {
      yielders.push_back(coir::spawn([&] {
        for (int k = 0; k < 100; ++k) coir::yield();
        if (--left == 0) done = true;
      }));
    }
    for (int i = 0; i < 3; ++i) coir::yield();
    EXPECT_TRUE(spin_until(done));
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, BusyLoop, coir_test::processors, coir_test::processors_name);

}  // namespace
