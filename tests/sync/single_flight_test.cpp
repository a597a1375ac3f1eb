// coir::single_flight: one call for all who ask meanwhile; errors, cancellation and forgetting.
#include <coir/single_flight.hpp>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <coir/chan.hpp>
#include <coir/sleep.hpp>

#include "actor.hpp"

namespace {

using coir_test::scaled;
using coir_test::until;
using sync_test::actor;
using sync_test::both_kinds;
using sync_test::kind;

class single_flight_test : public coir_test::with_processors {};

/// A leader's function that stays under way until told to go on.
struct gate {
  std::atomic<bool> reached{false}, open{false};

  void pass() {
    reached = true;
    until([this] { return open.load(); });
  }
};

TEST_P(single_flight_test, AllWhoAskMeanwhileShareOneCall) {
  run([] {
    for (const kind k : both_kinds) {
      coir::single_flight<std::string, std::string> flights;
      gate g;
      std::atomic<int> calls{0};
      std::vector<actor> actors;
      actors.emplace_back(k, [&] {
        EXPECT_EQ(flights.run("key",
                              [&] {
                                ++calls;
                                g.pass();
                                return std::string("value");
                              }),
                  "value");
      });
      until([&] { return g.reached.load(); });
      for (int i = 0; i < 4; ++i) {
        actors.emplace_back(k, [&] {
          EXPECT_EQ(flights.run("key",
                                [&] {
                                  ++calls;
                                  return "another";
                                }),
                    "value")
              << k;
        });
        actors.back().until_blocked();
      }
      EXPECT_EQ(flights.run("other", [] { return "at once"; }), "at once");
      g.open = true;
      for (actor& a : actors) a.join();
      EXPECT_EQ(calls, 1);
      EXPECT_EQ(flights.run("key", [] { return "anew"; }), "anew") << "nothing is cached";
    }
  });
}

TEST_P(single_flight_test, TheLeadersExceptionReachesEveryWaiter) {
  run([] {
    coir::single_flight<int, void> flights;
    gate g;
    std::vector<actor> actors;
    actors.emplace_back(kind::fiber, [&] {
      flights.run(1, [&] {
        g.pass();
        throw std::runtime_error("no answer");
      });
    });
    until([&] { return g.reached.load(); });
    for (const kind k : both_kinds) {
      actors.emplace_back(k, [&] { flights.run(1, [] { FAIL(); }); });
      actors.back().until_blocked();
    }
    g.open = true;
    for (actor& a : actors) coir_test::expect_throw_message<std::runtime_error>([&] { a.join(); }, "no answer");
    bool ran = false;
    flights.run(1, [&] { ran = true; });
    EXPECT_TRUE(ran);
  });
}

TEST_P(single_flight_test, WhenTheLeaderIsCancelledAWaiterTakesOver) {
  run([] {
    coir::single_flight<int, int> flights;
    std::vector<actor> actors;
    std::atomic<int> led{0};
    for (int i = 0; i < 4; ++i) {
      actors.emplace_back(kind::fiber, [&, i] {
        const int v = flights.run(7, [&, i] {
          ++led;
          if (i < 2) coir::sleep_for(std::chrono::hours(1));
          return i;
        });
        EXPECT_EQ(v, 2);
      });
      actors.back().until_blocked();
    }
    actors[0].cancel();
    EXPECT_THROW(actors[0].join(), coir::task_cancelled);
    until([&] { return led == 2; });
    actors[1].until_blocked();
    actors[1].cancel();
    EXPECT_THROW(actors[1].join(), coir::task_cancelled);
    actors[2].join();
    actors[3].join();
    EXPECT_EQ(led, 3);
    EXPECT_EQ(flights.run(7, [] { return 8; }), 8);
  });
}

TEST_P(single_flight_test, ACancelledWaiterThrowsAndTheFlightGoesOn) {
  run([] {
    coir::single_flight<int, int> flights;
    gate g;
    actor leader(kind::thread, [&] {
      EXPECT_EQ(flights.run(1,
                            [&] {
                              g.pass();
                              return 5;
                            }),
                5);
    });
    until([&] { return g.reached.load(); });
    actor victim(kind::fiber, [&] { flights.run(1, [] { return 0; }); });
    victim.until_blocked();
    actor waiter(kind::fiber, [&] { EXPECT_EQ(flights.run(1, [] { return 0; }), 5); });
    waiter.until_blocked();
    victim.cancel();
    EXPECT_THROW(victim.join(), coir::task_cancelled);
    g.open = true;
    leader.join();
    waiter.join();
  });
}

TEST_P(single_flight_test, ForgetDuringACallBeginsAnewAndDisturbsNeither) {
  run([] {
    coir::single_flight<int, int> flights;
    gate first, second;
    const auto fly = [&](gate& g, int value) {
      return flights.run(1, [&g, value] {
        g.pass();
        return value;
      });
    };
    actor old_leader(kind::fiber, [&] { EXPECT_EQ(fly(first, 1), 1); });
    until([&] { return first.reached.load(); });
    actor old_waiter(kind::fiber, [&] { EXPECT_EQ(flights.run(1, [] { return 0; }), 1); });
    old_waiter.until_blocked();
    flights.forget(1);
    flights.forget(2);
    actor new_leader(kind::fiber, [&] { EXPECT_EQ(fly(second, 2), 2); });
    until([&] { return second.reached.load(); });
    first.open = true;
    old_leader.join();
    old_waiter.join();
    actor new_waiter(kind::thread, [&] { EXPECT_EQ(flights.run(1, [] { return 0; }), 2); });
    new_waiter.until_blocked();
    second.open = true;
    new_leader.join();
    new_waiter.join();
  });
}

TEST_P(single_flight_test, ManyKeysManyCallersRandomCancellations) {
  run([] {
    const int rounds = scaled(300);
    for (int r = 0; r < rounds; ++r) {
      coir::single_flight<int, int> flights;
      std::atomic<int> running[3] = {};
      std::vector<actor> actors;
      for (int i = 0; i < 9; ++i) {
        actors.emplace_back(i == 8 && r % 8 == 0 ? kind::thread : kind::fiber, [&, i] {
          for (int n = 0; n < 5; ++n) {
            const int key = (i + n) % 3;
            const int v = flights.run(key, [&] {
              struct count {
                std::atomic<int>& of;
                explicit count(std::atomic<int>& a) : of(a) { EXPECT_EQ(++of, 1); }
                ~count() { --of; }
              } const inside(running[key]);
              if (coir::this_fiber::is_fiber()) coir::sleep_for(std::chrono::nanoseconds(1));
              coir_test::pause();
              return key;
            });
            EXPECT_EQ(v, key);
          }
        });
      }
      for (std::size_t i = 0; i < 8; i += 2) {
        if (coir::detail::random_bits() % 2 == 0) coir::yield();
        actors[i].cancel();
      }
      for (actor& a : actors) {
        try {
          a.join();
        } catch (const coir::task_cancelled&) {
        }
      }
      for (int key = 0; key < 3; ++key)
        EXPECT_EQ(flights.run(key, [] { return 42; }), 42) << "a flight was left behind";
    }
  });
}

/// Throws when told to.
struct fragile_hash {
  static inline std::atomic<bool> broken{false};
  std::size_t operator()(int key) const {
    if (broken) throw std::runtime_error("no hash");
    return std::hash<int>()(key);
  }
};

TEST_P(single_flight_test, AHashThatThrowsAtTheEndLeavesNobodyWaitingAndNothingBehind) {
  run([] {
    coir::single_flight<int, int, fragile_hash> flights;
    gate g;
    actor leader(kind::fiber, [&] {
      EXPECT_EQ(flights.run(1,
                            [&] {
                              g.pass();
                              fragile_hash::broken = true;
                              return 10;
                            }),
                10);
    });
    until([&] { return g.reached.load(); });
    actor waiter(kind::fiber, [&] { EXPECT_EQ(flights.run(1, [] { return 20; }), 10); });
    waiter.until_blocked();
    g.open = true;
    leader.join();
    waiter.join();
    EXPECT_THROW(flights.run(1, [] { return 30; }), std::runtime_error);
    fragile_hash::broken = false;
    EXPECT_EQ(flights.run(1, [] { return 40; }), 40);
  });
}

/// Blocks where it is told to. Nobody else may be inside at that time: the map is changed under one mutex.
struct slow_hash {
  static inline std::atomic<bool> inside{false};
  static inline std::atomic<int> overlaps{0};
  static inline coir::chan<int> blocks_7, blocks_8;

  std::size_t operator()(int key) const {
    if (inside.exchange(true)) ++overlaps;
    struct leaves {
      ~leaves() { inside = false; }
    } const at_end;
    if (key == 7) blocks_7.recv();
    if (key == 8) blocks_8.recv();
    return std::hash<int>()(key);
  }
};

// The mutex of the flights stays with one who blocks for ever, so the waiter is unwound without it.
TEST_P(single_flight_test, AWaiterThatADeadlockUnwindsTouchesNothingWithoutTheMutex) {
  slow_hash::overlaps = 0;
  slow_hash::blocks_7 = coir::make_chan<int>();
  slow_hash::blocks_8 = coir::make_chan<int>();
  EXPECT_THROW(run([] {
                 coir::single_flight<int, int, slow_hash> flights;
                 coir::task<void> leader = coir::spawn([&] {
                   flights.run(1, [] {
                     coir::sleep_for(std::chrono::hours(1));
                     return 0;
                   });
                 });
                 coir_test::until_blocked(leader);
                 // Deeper than the others, so that it is unwound first.
                 coir::task<void> waiter;
                 coir::spawn([&] { waiter = coir::spawn([&] { flights.run(1, [] { return 1; }); }); }).get();
                 coir_test::until_blocked(waiter);
                 coir::task<void> first = coir::spawn([&] { flights.run(7, [] { return 7; }); });
                 coir_test::until_blocked(first);
                 // They queue for the mutex: the leader, which is going to leave its flight; who keeps the mutex for
                 // ever; and the waiter, which is told to lead.
                 leader.request_stop();
                 coir_test::until_blocked(leader);
                 coir::task<void> keeper = coir::spawn([&] { flights.run(8, [] { return 8; }); });
                 coir_test::until_blocked(keeper);
                 coir::sleep_for(std::chrono::milliseconds(2));  // who has waited for 1 ms is handed the mutex
                 slow_hash::blocks_7.close();
                 keeper.wait();
               }),
               coir::deadlock);
  EXPECT_EQ(slow_hash::overlaps, 0);
  slow_hash::blocks_7 = {};
  slow_hash::blocks_8 = {};
}

INSTANTIATE_TEST_SUITE_P(Processors, single_flight_test, coir_test::processors, coir_test::processors_name);

}  // namespace
