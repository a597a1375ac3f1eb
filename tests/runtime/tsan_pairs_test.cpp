// ThreadSanitizer and the runtime's own synchronization: a race between two fibers is reported, whichever processor
// runs them; its twin that spawns or joins where it should is silent. Each program runs in a process of its own.
#include <atomic>
#include <cstdlib>

#include "coir_test.hpp"
#include "gate.hpp"

namespace {

using runtime_test::gate;

class RuntimeTsanPairs : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    if (!coir_test::thread_sanitizer) GTEST_SKIP() << "only ThreadSanitizer can tell";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }

  /// Runs f as main; the process then exits with 0, or with ThreadSanitizer's own status if it has reported something.
  template <class F>
  [[noreturn]] static void run_and_exit(F f) {
    coir::options o;
    o.processors = GetParam();
    coir::run(o, f);
    std::exit(0);
  }
};

constexpr int status_of_a_race = 66;

#define EXPECT_RACE(statement) EXPECT_EXIT(statement, testing::ExitedWithCode(status_of_a_race), "data race")
#define EXPECT_SILENT(statement) EXPECT_EXIT(statement, testing::ExitedWithCode(0), "")

int shared = 0;  // what they race for

// Two fibers that shall race must both have started before: ThreadSanitizer orders a fiber after whoever made its
// stack, which may be anybody who runs before it.

/// Waits for the flag without synchronizing: relaxed, so it orders nothing.
void wait_for(const std::atomic<bool>& flag) {
  while (!flag.load(std::memory_order_relaxed)) coir::yield();
}

TEST_P(RuntimeTsanPairs, TwoLiveFibersThatWriteAreReported) {
  EXPECT_RACE(run_and_exit([] {
    std::atomic<bool> second_lives{false}, written{false}, both{false};
    coir::task<void> a = coir::spawn([&] {
      wait_for(second_lives);
      shared = 1;
      written.store(true, std::memory_order_relaxed);
      wait_for(both);
    });
    coir::task<void> b = coir::spawn([&] {
      second_lives.store(true, std::memory_order_relaxed);
      wait_for(written);
      shared = 2;
      both.store(true, std::memory_order_relaxed);
    });
    a.get();
    b.get();
  }));
}

TEST_P(RuntimeTsanPairs, AWriteAfterTheJoinIsSilent) {
  EXPECT_SILENT(run_and_exit([] {
    for (int i = 0; i < 100; ++i) {
      coir::task<void> a = coir::spawn([] { shared = 1; });
      coir::task<void> b = coir::spawn([&] {
        a.wait();
        shared = 2;
      });
      b.get();
      shared = 3;
    }
  }));
}

TEST_P(RuntimeTsanPairs, AWriteBeforeTheSpawnIsSilent) {
  EXPECT_SILENT(run_and_exit([] {
    for (int i = 0; i < 100; ++i) {
      shared = 1;
      coir::spawn([] { shared = 2; }).get();
      shared = 3;
      gate done;
      coir::go([&] {
        shared = 4;
        done.open();
      });
      done.pass();
      shared = 5;
    }
  }));
}

TEST_P(RuntimeTsanPairs, AWriteAfterTheSpawnIsReported) {
  EXPECT_RACE(run_and_exit([] {
    std::atomic<bool> lives{false}, written{false}, checked{false};
    coir::task<void> t = coir::spawn([&] {
      lives.store(true, std::memory_order_relaxed);
      wait_for(written);
      shared = 2;
      checked.store(true, std::memory_order_relaxed);
    });
    wait_for(lives);
    shared = 1;
    written.store(true, std::memory_order_relaxed);
    wait_for(checked);
    t.get();
  }));
}

TEST_P(RuntimeTsanPairs, AReadThatDoesNotJoinIsReported) {
  EXPECT_RACE(run_and_exit([] {
    std::atomic<bool> written{false}, leave{false};
    coir::task<void> t = coir::spawn([&] {
      shared = 1;
      written.store(true, std::memory_order_relaxed);
      wait_for(leave);
    });
    wait_for(written);
    const volatile int seen = shared;
    static_cast<void>(seen);
    leave.store(true, std::memory_order_relaxed);
    t.get();
  }));
}

TEST_P(RuntimeTsanPairs, AReadyTaskOrATimedJoinSynchronizesToo) {
  EXPECT_SILENT(run_and_exit([] {
    for (int i = 0; i < 100; ++i) {
      coir::task<void> a = coir::spawn([] { shared = 1; });
      while (!a.ready()) coir::yield();
      shared = 2;
      coir::task<void> b = coir::spawn([] { shared = 3; });
      while (!b.wait_for(std::chrono::milliseconds(1))) {
      }
      shared = 4;
    }
  }));
}

TEST_P(RuntimeTsanPairs, AGateSynchronizes) {
  EXPECT_SILENT(run_and_exit([] {
    for (int i = 0; i < 100; ++i) {
      gate door, back;
      coir::task<void> t = coir::spawn([&] {
        door.pass();
        shared = 2;
        back.open();
      });
      shared = 1;
      door.open();
      back.pass();
      shared = 3;
      t.get();
    }
  }));
}

TEST_P(RuntimeTsanPairs, TheEndOfRunSynchronizesWithEveryFiber) {
  EXPECT_SILENT({
    coir::options o;
    o.processors = GetParam();
    shared = 1;
    coir::run(o, [] {
      shared = 2;
      coir::go([] {
        shared = 3;
        coir::go([] { shared = 4; });
      });
    });
    shared = 5;
    std::exit(0);
  });
}

TEST_P(RuntimeTsanPairs, AThreadsSpawnAndGetSynchronize) {
  EXPECT_SILENT({
    coir::options o;
    o.processors = GetParam();
    {
      coir::runtime rt{o};
      for (int i = 0; i < 100; ++i) {
        shared = 1;
        rt.spawn([] { shared = 2; }).get();
        shared = 3;
        rt.run([] { shared = 4; });
        shared = 5;
        rt.go([] { shared = 6; });
        rt.wait();
        shared = 7;
      }
    }
    std::exit(0);
  });
}

TEST_P(RuntimeTsanPairs, AForeignThreadThatRacesAFiberIsReported) {
  EXPECT_RACE({
    coir::options o;
    o.processors = GetParam();
    {
      coir::runtime rt{o};
      std::atomic<bool> written{false};
      coir::task<void> t = rt.spawn([&] {
        shared = 1;
        written.store(true, std::memory_order_relaxed);
      });
      while (!written.load(std::memory_order_relaxed)) {
      }
      shared = 2;
      t.get();
    }
    std::exit(0);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, RuntimeTsanPairs, coir_test::processors, coir_test::processors_name);

}  // namespace
