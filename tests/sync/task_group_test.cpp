// task_group: joined together, ended together by the first failure; nobody outlives it.
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <coir/chan.hpp>
#include <coir/mutex.hpp>
#include <coir/runtime.hpp>
#include <coir/semaphore.hpp>
#include <coir/task_group.hpp>

#include "joining_test.hpp"

namespace {

using namespace sync_test;

class TaskGroup : public runtime_test::leak_checked {};

TEST_P(TaskGroup, WaitJoinsAll) {
  run([] {
    coir::task_group g;
    std::vector<int> results(100);  // plain ints: each child's end happens before wait() returns
    for (std::size_t i = 0; i < results.size(); ++i)
      g.spawn([&results, i, c = counted()] {
        if (i % 3 == 0) coir::sleep_for(100us);
        results[i] = static_cast<int>(i);
      });
    g.wait();
    for (std::size_t i = 0; i < results.size(); ++i) EXPECT_EQ(results[i], static_cast<int>(i));
    EXPECT_EQ(counted::live(), 0);
  });
}

TEST_P(TaskGroup, AnEmptyOneIsDone) {
  run([] {
    coir::task_group g;
    g.wait();
    g.wait();
  });
  coir::task_group outside;
  outside.wait();
}

TEST_P(TaskGroup, MayBeUsedAgainAfterWait) {
  run([] {
    coir::task_group g;
    int rounds = 0;
    for (int i = 0; i < 10; ++i) {
      g.spawn([&] { ++rounds; });
      g.wait();
      EXPECT_EQ(rounds, i + 1);
    }
  });
}

TEST_P(TaskGroup, TakesMoveOnlyFunctionsAndDropsResults) {
  run([] {
    coir::task_group g;
    int sum = 0;
    g.spawn([&sum, p = std::make_unique<int>(42)] { return sum = *p; });
    g.wait();
    EXPECT_EQ(sum, 42);
  });
}

TEST_P(TaskGroup, TheFirstFailureCancelsTheRestAndIsRethrown) {
  run([] {
    coir::task_group g;
    std::atomic<int> unwound{0};
    coir::chan<void> never = coir::make_chan<void>();
    std::atomic<int> blocked{0};
    for (int i = 0; i < 20; ++i)
      g.spawn([&, c = counted()] {
        ++blocked;
        try {
          never.recv();
        } catch (const coir::cancelled&) {
          ++unwound;
          throw;
        }
      });
    g.spawn([&] {
      until([&] { return blocked == 20; });
      throw failure("the first");
    });
    expect_throw_message<failure>([&] { g.wait(); }, "the first");
    EXPECT_EQ(unwound, 20);
    EXPECT_EQ(counted::live(), 0);
    expect_throw_message<failure>([&] { g.wait(); }, "the first");  // it stays so
  });
}

TEST_P(TaskGroup, LaterFailuresAreDropped) {
  run([] {
    coir::task_group g;
    for (int i = 0; i < 20; ++i)
      g.spawn([] {
        try {
          coir::sleep_for(1h);
        } catch (const coir::cancelled&) {
          throw failure("a later one");
        }
      });
    g.spawn([] { throw failure("the first"); });
    expect_throw_message<failure>([&] { g.wait(); }, "the first");
  });
}

TEST_P(TaskGroup, AFailureStopsChildrenThatHaveNotStarted) {
  run([] {
    for (int round = 0; round < 20; ++round) {
      coir::task_group g;
      std::atomic<int> passed{0};
      g.spawn([] { throw failure("at once"); });
      for (int i = 0; i < 20; ++i)
        g.spawn([&] {
          coir::sleep_for(1h);
          ++passed;
        });
      EXPECT_THROW(g.wait(), failure);
      EXPECT_EQ(passed, 0);
    }
  });
}

TEST_P(TaskGroup, SignalsTheStopTokensOfItsChildren) {
  run([] {
    coir::task_group g;
    g.spawn([] {
      const std::stop_token stop = coir::this_fiber::stop_token();
      while (!stop.stop_requested()) coir::yield();
    });
    g.spawn([] { throw failure("enough"); });
    EXPECT_THROW(g.wait(), failure);
  });
}

TEST_P(TaskGroup, AChildThatEndsCancelledIsNoFailure) {
  run([] {
    coir::task_group g;
    coir::chan<void> go_on = coir::make_chan<void>();
    bool ran = false;
    g.spawn([] { throw coir::cancelled(); });
    g.spawn([&] {
      go_on.recv();
      ran = true;
    });
    for (int i = 0; i < 10; ++i) coir::yield();
    go_on.send();
    g.wait();
    EXPECT_TRUE(ran);
  });
}

// Its work is not done, so who waits must not go on as if it were.
TEST_P(TaskGroup, WaitThrowsIfADeadlockUnwindsTheChildren) {
  bool ended_as_cancelled = false;
  EXPECT_THROW(run([&] {
                 coir::task_group g;
                 for (int i = 0; i < 3; ++i) g.spawn([] { coir::make_chan<int>().recv(); });
                 try {
                   g.wait();
                 } catch (const coir::cancelled&) {
                   ended_as_cancelled = true;
                   throw;
                 }
                 ADD_FAILURE() << "wait() returned";
               }),
               coir::deadlock);
  EXPECT_TRUE(ended_as_cancelled);
}

TEST_P(TaskGroup, WaitInASectionThrowsIfADeadlockUnwindsTheChildren) {
  bool told = false;
  EXPECT_THROW(run([&] {
                 coir::task_group g;
                 g.spawn([] { coir::make_chan<int>().recv(); });
                 const coir::uncancellable guard;
                 try {
                   g.wait();
                 } catch (const coir::task_cancelled&) {
                   told = true;
                 }
               }),
               coir::deadlock);
  EXPECT_TRUE(told);
}

TEST_P(TaskGroup, WaitThrowsIfTheRuntimeIsCancelled) {
  coir::runtime rt{opts()};
  coir::task_group g;
  std::atomic<int> done{0};
  rt.run([&] {
    g.spawn([&] { ++done; });
    g.spawn([&] {
      coir::make_chan<int>().recv();
      ++done;
    });
  });
  until([&] { return done == 1; });
  rt.cancel();
  EXPECT_THROW(g.wait(), coir::task_cancelled);
  EXPECT_THROW(g.wait(), coir::task_cancelled);  // it stays so
  EXPECT_EQ(done, 1);
}

TEST_P(TaskGroup, WaitThrowsIfAnotherWaitWasCancelled) {
  run([] {
    coir::task_group g;
    g.spawn([] { coir::sleep_for(1h); });
    coir::task<void> first = coir::spawn([&] { g.wait(); });
    coir::task<void> second = coir::spawn([&] { g.wait(); });
    until_blocked(first);
    until_blocked(second);
    first.request_stop();
    EXPECT_THROW(first.get(), coir::task_cancelled);
    EXPECT_THROW(second.get(), coir::task_cancelled);
    bool ran = false;
    g.spawn([&] { ran = true; });
    EXPECT_THROW(g.wait(), coir::task_cancelled);
    EXPECT_FALSE(ran);
  });
}

TEST_P(TaskGroup, AChildThatHearsOfAnothersCancellationFails) {
  run([] {
    coir::task<void> victim = coir::spawn([] { coir::sleep_for(1h); });
    std::atomic<bool> stopped{false};
    coir::task_group g;
    g.spawn([&] {
      victim.wait();
      coir_test::until([&] { return stopped.load(); });  // get() changes the handle, which request_stop() reads
      victim.get();
    });
    g.spawn([] { coir::sleep_for(1h); });
    victim.request_stop();
    stopped = true;
    EXPECT_THROW(g.wait(), coir::task_cancelled);
  });
}

TEST_P(TaskGroup, SpawnDoesNothingAfterAFailure) {
  run([] {
    coir::task_group g;
    g.spawn([] { throw failure("first"); });
    EXPECT_THROW(g.wait(), failure);
    bool ran = false;
    g.spawn([&ran, c = counted()] { ran = true; });
    EXPECT_EQ(counted::live(), 0);
    EXPECT_THROW(g.wait(), failure);
    EXPECT_FALSE(ran);
  });
}

TEST_P(TaskGroup, TheLimitHolds) {
  run([] {
    for (const int limit : {1, 2, 5}) {
      coir::task_group g;
      g.set_limit(static_cast<std::size_t>(limit));
      std::atomic<int> inside{0}, most{0}, ran{0};
      for (int i = 0; i < 100; ++i)
        g.spawn([&, i] {
          const int now = ++inside;
          for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
          }
          if (i % 5 == 0)
            coir::sleep_for(20us);
          else
            coir::yield();
          ++ran;
          --inside;
        });
      g.wait();
      EXPECT_EQ(ran, 100);
      EXPECT_LE(most, limit);
    }
  });
}

TEST_P(TaskGroup, SpawnBlocksAtTheLimitUntilAChildEnds) {
  run([] {
    coir::task_group g;
    g.set_limit(1);
    coir::chan<void> go_on = coir::make_chan<void>();
    g.spawn([&] { go_on.recv(); });
    coir::task<void> spawner = coir::spawn([&] { g.spawn([] {}); });
    until_blocked(spawner);
    go_on.send();
    spawner.get();
    g.wait();
  });
}

TEST_P(TaskGroup, SpawnersAreServedInTheOrderTheyCame) {
  run([] {
    coir::task_group g;
    g.set_limit(1);
    coir::chan<void> go_on = coir::make_chan<void>();
    std::vector<int> order;  // one child at a time
    g.spawn([&] { go_on.recv(); });
    std::vector<coir::task<void>> spawners;
    for (int i = 0; i < 10; ++i) {
      spawners.push_back(coir::spawn([&, i] { g.spawn([&order, i] { order.push_back(i); }); }));
      until_blocked(spawners.back());
    }
    go_on.send();
    for (auto& s : spawners) s.get();
    g.wait();
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  });
}

TEST_P(TaskGroup, AHigherLimitLetsBlockedSpawnersOn) {
  run([] {
    coir::task_group g;
    coir::chan<void> go_on = coir::make_chan<void>();
    g.set_limit(1);
    g.spawn([&] { go_on.recv(); });
    std::vector<coir::task<void>> spawners;
    for (int i = 0; i < 4; ++i) {
      spawners.push_back(coir::spawn([&] { g.spawn([&] { go_on.recv(); }); }));
      until_blocked(spawners.back());
    }
    g.set_limit(3);
    spawners[0].get();
    spawners[1].get();
    EXPECT_FALSE(spawners[2].ready());
    g.set_limit(coir::task_group::no_limit);
    spawners[2].get();
    spawners[3].get();
    go_on.close();
    g.wait();
  });
}

TEST_P(TaskGroup, ALimitOfNothingIsRefused) {
  coir::task_group g;
  EXPECT_THROW(g.set_limit(0), std::invalid_argument);
}

TEST_P(TaskGroup, AFailureReleasesBlockedSpawners) {
  run([] {
    coir::task_group g;
    coir::chan<void> go_on = coir::make_chan<void>();
    g.set_limit(1);
    g.spawn([&] {
      go_on.recv();
      throw failure("first");
    });
    std::atomic<int> ran{0};
    std::vector<coir::task<void>> spawners;
    for (int i = 0; i < 5; ++i) spawners.push_back(coir::spawn([&] { g.spawn([&ran, c = counted()] { ++ran; }); }));
    until_blocked(spawners);
    go_on.send();
    for (auto& s : spawners) s.get();
    EXPECT_EQ(counted::live(), 0);
    EXPECT_THROW(g.wait(), failure);
    EXPECT_EQ(ran, 0);
  });
}

TEST_P(TaskGroup, ACancelledSpawnerLeavesItsPlaceToTheNext) {
  run([] {
    coir::task_group g;
    coir::chan<void> go_on = coir::make_chan<void>();
    g.set_limit(1);
    g.spawn([&] { go_on.recv(); });
    bool first_ran = false, second_ran = false;
    coir::task<void> first = coir::spawn([&] { g.spawn([&first_ran, c = counted()] { first_ran = true; }); });
    until_blocked(first);
    coir::task<void> second = coir::spawn([&] { g.spawn([&] { second_ran = true; }); });
    until_blocked(second);
    first.request_stop();
    EXPECT_THROW(first.get(), coir::task_cancelled);
    EXPECT_EQ(counted::live(), 0);
    go_on.send();
    second.get();
    g.wait();
    EXPECT_FALSE(first_ran);
    EXPECT_TRUE(second_ran);
  });
}

TEST_P(TaskGroup, ChildrenMaySpawnSiblings) {
  run([] {
    coir::task_group g;
    std::atomic<int> ran{0};
    const auto tree = [&](const auto& self, int depth) -> void {
      ++ran;
      if (depth == 0) return;
      for (int i = 0; i < 2; ++i) g.spawn([&self, depth] { self(self, depth - 1); });
    };
    g.spawn([&] { tree(tree, 8); });
    g.wait();
    EXPECT_EQ(ran, 511);
  });
}

TEST_P(TaskGroup, TheDestructorCancelsAndJoins) {
  run([] {
    std::atomic<int> unwound{0};
    {
      coir::task_group g;
      for (int i = 0; i < 10; ++i)
        g.spawn([&] {
          struct at_end {
            std::atomic<int>& count;
            ~at_end() {
              const coir::uncancellable guard;
              coir::sleep_for(100us);
              ++count;
            }
          } const counts{unwound};
          coir::sleep_for(1h);
        });
    }
    EXPECT_EQ(unwound, 10);
  });
}

TEST_P(TaskGroup, ACancelledWaitCancelsAndJoinsTheChildren) {
  run([] {
    std::atomic<int> ended{0};
    coir::task<void> owner = coir::spawn([&] {
      coir::task_group g;
      for (int i = 0; i < 10; ++i)
        g.spawn([&] {
          try {
            coir::sleep_for(1h);
          } catch (const coir::cancelled&) {
            const coir::uncancellable guard;
            coir::sleep_for(100us);
            ++ended;
            throw;
          }
        });
      try {
        g.wait();
      } catch (const coir::cancelled&) {
        EXPECT_EQ(ended, 10);
        bool ran = false;
        g.spawn([&] { ran = true; });
        EXPECT_FALSE(ran);
        throw;
      }
    });
    until_blocked(owner);
    owner.request_stop();
    EXPECT_THROW(owner.get(), coir::task_cancelled);
    EXPECT_EQ(ended, 10);
  });
}

TEST_P(TaskGroup, NeedsARuntimeToSpawnButNotToWait) {
  coir::task_group g;
  EXPECT_THROW(g.spawn([] {}), coir::not_in_runtime);
  coir::runtime rt{opts()};
  coir::chan<void> go_on = coir::make_chan<void>();
  std::atomic<bool> ended{false};
  rt.run([&] {
    g.spawn([&] {
      go_on.recv();
      ended = true;
    });
  });
  std::thread other([&] { go_on.send(); });
  g.wait();
  EXPECT_TRUE(ended);
  other.join();
  rt.run([&] { g.spawn([] { throw failure("seen by the thread"); }); });
  expect_throw_message<failure>([&] { g.wait(); }, "seen by the thread");
}

// The last child's last touch of the group is before wait() returns.
TEST_P(TaskGroup, MayBeDestroyedAsSoonAsWaitReturns) {
  run([] {
    for (int i = 0; i < scaled(20'000); ++i) {
      auto g = std::make_unique<coir::task_group>();
      g->spawn([] {});
      if (i % 2 == 0) g->spawn([] { coir::yield(); });
      if (i % 3 == 0) g->set_limit(1);
      g->spawn([&] {
        if (i % 7 == 0) throw failure("now and then");
      });
      try {
        g->wait();
      } catch (const failure&) {
      }
    }
  });
}

TEST_P(TaskGroup, ChildrenLeaveWhenTheyEnd) {
  run([] {
    coir::task_group g;
    g.set_limit(4);
    for (int i = 0; i < scaled(100'000); ++i) {
      g.spawn([c = counted()] {});
      ASSERT_LE(counted::live(), 6);
    }
    g.wait();
  });
}

// Failure, outside cancellation and the end of the group at the same time.
TEST_P(TaskGroup, FailureMeetsCancellation) {
  run([] {
    for (int round = 0; round < scaled(500); ++round) {
      std::atomic<int> inside{0};
      coir::task<void> owner = coir::spawn([&, round] {
        coir::task_group g;
        if (round % 2 == 0) g.set_limit(3);
        for (int i = 0; i < 8; ++i)
          g.spawn([&, i] {
            struct counts {
              std::atomic<int>& n;
              explicit counts(std::atomic<int>& c) : n(c) { ++n; }
              ~counts() { --n; }
            } const here(inside);
            if (i % 3 == 0) coir::yield();
            if (i == 5 && round % 3 == 0) throw failure("fifth");
            if (i % 2 == 0) coir::sleep_for(50us);
          });
        g.wait();
      });
      if (round % 4 < 2) coir::sleep_for(std::chrono::microseconds(round % 60));
      owner.request_stop();
      try {
        owner.get();
      } catch (const failure&) {
      } catch (const coir::task_cancelled&) {
      }
      ASSERT_EQ(inside, 0);
    }
  });
}

TEST_P(TaskGroup, GroupsNest) {
  run([] {
    coir::task_group outer;
    std::atomic<int> unwound{0};
    for (int i = 0; i < 4; ++i)
      outer.spawn([&] {
        coir::task_group inner;
        for (int j = 0; j < 4; ++j)
          inner.spawn([&] {
            try {
              coir::sleep_for(1h);
            } catch (const coir::cancelled&) {
              ++unwound;
              throw;
            }
          });
        coir::yield();
        inner.wait();
      });
    outer.spawn([] {
      coir::sleep_for(1ms);
      throw failure("outer");
    });
    EXPECT_THROW(outer.wait(), failure);
    EXPECT_EQ(unwound, 16);
  });
}

TEST_P(TaskGroup, ADeadlockShowsWhatItsMembersWaitOn) {
  expect_throw_message<coir::deadlock>(
      [&] {
        run([] {
          coir::task_group g;
          g.spawn([] { coir::make_chan<int>().recv(); });
          g.wait();
        });
      },
      "task_group wait");
}

INSTANTIATE_TEST_SUITE_P(Processors, TaskGroup, coir_test::processors, coir_test::processors_name);

}  // namespace
