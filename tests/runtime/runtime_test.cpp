// class runtime: an explicit lifetime, fibers started from foreign threads, several at once.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using coir_test::expect_throw_message;
using runtime_test::counted;
using runtime_test::gate;
using namespace std::chrono_literals;

class Runtime : public runtime_test::leak_checked {};

TEST_P(Runtime, StartsFibersFromAForeignThread) {
  coir::runtime rt{opts()};
  std::atomic<int> ran{0};
  for (int i = 0; i < 100; ++i) rt.go([&] { ++ran; });
  coir::task<int> t = rt.spawn([] { return 9; });
  EXPECT_EQ(t.get(), 9);
  rt.wait();
  EXPECT_EQ(ran, 100);
}

TEST_P(Runtime, RunsFunctionsOneAfterTheOther) {
  coir::runtime rt{opts()};
  for (int i = 0; i < 100; ++i) EXPECT_EQ(rt.run([i] { return i; }), i);
}

TEST_P(Runtime, RunReturnsWhenItsFunctionHasThoughOthersGoOn) {
  coir::runtime rt{opts()};
  gate door;
  std::atomic<bool> through{false};
  rt.run([&] {
    coir::go([&] {
      door.pass();
      through = true;
    });
  });
  EXPECT_FALSE(through);
  door.open();
  rt.wait();
  EXPECT_TRUE(through);
}

TEST_P(Runtime, AnExceptionOfRunGoesToItsCallerAloneAndOthersGoOn) {
  coir::runtime rt{opts()};
  gate door;
  coir::task<int> other = rt.spawn([&] {
    door.pass();
    return 1;
  });
  expect_throw_message<std::runtime_error>([&] { rt.run([] { throw std::runtime_error("mine"); }); }, "mine");
  coir_test::until_blocked(other);
  door.open();
  EXPECT_EQ(other.get(), 1);
}

TEST_P(Runtime, RunsFromSeveralThreadsAtOnce) {
  coir::runtime rt{opts()};
  std::atomic<int> sum{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < coir_test::scaled(500); ++k)
        if (rt.run([&] { return coir::spawn([i] { return i; }).get(); }) == i) ++sum;
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(sum, 4 * coir_test::scaled(500));
}

TEST_P(Runtime, WaitReturnsAtOnceWhenThereIsNothing) {
  coir::runtime rt{opts()};
  rt.wait();
  rt.wait();
  rt.go([] {});
  rt.wait();
}

TEST_P(Runtime, WaitCoversFibersThatFibersStart) {
  coir::runtime rt{opts()};
  std::atomic<int> ended{0};
  struct tree {
    static void grow(std::atomic<int>& count, int depth) {
      if (depth > 0)
        for (int i = 0; i < 3; ++i) coir::go([&count, depth] { grow(count, depth - 1); });
      ++count;
    }
  };
  rt.go([&] { tree::grow(ended, 6); });
  rt.wait();
  EXPECT_EQ(ended, (3 * 3 * 3 * 3 * 3 * 3 * 3 - 1) / 2);
}

TEST_P(Runtime, TheDestructorWaits) {
  std::atomic<bool> ended{false};
  {
    coir::runtime rt{opts()};
    rt.go([&] {
      coir::sleep_for(2ms);
      ended = true;
    });
  }
  EXPECT_TRUE(ended);
}

TEST_P(Runtime, CurrentIsTheFibersRuntimeAndAHandleForForeignThreads) {
  expect_throw_message<coir::not_in_runtime>([] { static_cast<void>(coir::runtime::current()); }, "runtime::current");
  coir::runtime rt{opts()};
  rt.run([&] {
    EXPECT_EQ(&coir::runtime::current(), &rt);
    coir::runtime& handle = coir::runtime::current();
    gate answered;
    std::thread foreign([&] { handle.go([&] { answered.open(); }); });
    answered.pass();
    foreign.join();
  });
}

TEST_P(Runtime, GoAndSpawnOutsideAFiberThrow) {
  expect_throw_message<coir::not_in_runtime>([] { coir::go([] {}); }, "coir::go");
  expect_throw_message<coir::not_in_runtime>([] { static_cast<void>(coir::spawn([] {})); }, "coir::spawn");
}

TEST_P(Runtime, GoOutsideAFiberLeavesTheClosureWithItsCaller) {
  auto value = std::make_unique<int>(1);
  auto closure = [v = std::move(value)] { static_cast<void>(v); };
  EXPECT_THROW(coir::go(std::move(closure)), coir::not_in_runtime);
}

TEST_P(Runtime, TwoLiveSideBySide) {
  coir::runtime one{opts()}, two{opts()};
  gate from_one, from_two;
  coir::task<coir::runtime*> a = one.spawn([&] {
    from_one.open();
    from_two.pass();
    return &coir::runtime::current();
  });
  coir::task<coir::runtime*> b = two.spawn([&] {
    from_one.pass();
    from_two.open();
    return &coir::runtime::current();
  });
  EXPECT_EQ(a.get(), &one);
  EXPECT_EQ(b.get(), &two);
}

TEST_P(Runtime, AFiberOfOneSpawnsIntoTheOtherAndJoinsIt) {
  coir::runtime one{opts()}, two{opts()};
  const int sum = one.run([&] {
    int s = 0;
    for (int i = 0; i < coir_test::scaled(500); ++i) {
      s += two.spawn([&, i] {
                EXPECT_EQ(&coir::runtime::current(), &two);
                return i;
              })
               .get();
      EXPECT_EQ(&coir::runtime::current(), &one);
    }
    return s;
  });
  const int n = coir_test::scaled(500);
  EXPECT_EQ(sum, n * (n - 1) / 2);
}

TEST_P(Runtime, IsDestroyedOnAThreadThatDidNotMakeIt) {
  for (int i = 0; i < coir_test::scaled(200); ++i) {
    auto rt = std::make_unique<coir::runtime>(opts());
    std::atomic<int> ran{0};
    rt->go([&, held = counted()] {
      coir::yield();
      ++ran;
    });
    std::thread([&ran, owned = std::move(rt)]() mutable {
      owned->go([&ran] { ++ran; });
      owned.reset();
    }).join();
    ASSERT_EQ(ran, 2);
  }
}

TEST_P(Runtime, CancelReachesEveryFiber) {
  coir::runtime rt{opts()};
  gate never;
  std::vector<coir::task<void>> tasks;
  for (int i = 0; i < 20; ++i) tasks.push_back(rt.spawn([&, held = counted()] { never.pass(); }));
  coir_test::until_blocked(tasks);
  rt.cancel();
  for (coir::task<void>& t : tasks) EXPECT_THROW(t.get(), coir::task_cancelled);
}

/// How many threads, open files and mappings the process has. (AddressSanitizer finds what is left on the heap.)
struct resources {
  std::ptrdiff_t threads = entries("/proc/self/task");
  std::ptrdiff_t files = entries("/proc/self/fd");
  std::ptrdiff_t mappings = lines("/proc/self/maps");

  static std::ptrdiff_t entries(const char* folder) {
    return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
  }
  static std::ptrdiff_t lines(const char* file) {
    std::ifstream in(file);
    std::ptrdiff_t n = 0;
    for (std::string line; std::getline(in, line);) ++n;
    return n;
  }
};

TEST_P(Runtime, StartsAndStopsTenThousandTimes) {
  // The plain build does 10,000 at one processor: each more costs a thread.
  const int rounds = coir_test::scaled(GetParam() == 1 ? 10'000 : GetParam() == 2 ? 2'000 : 500);
  const auto start_and_stop = [&](int i) {
    coir::runtime rt{opts()};
    if (i % 3 == 0) return;  // never used
    rt.go([held = counted()] {});
    if (i % 3 == 2) rt.wait();
  };
  for (int i = 0; i < 10; ++i) start_and_stop(i);
  const resources before;
  for (int i = 0; i < rounds; ++i) start_and_stop(i);
  // A thread that was joined is seen for a moment longer.
  coir_test::until([&] { return resources().threads <= before.threads; });
  const resources after;
  EXPECT_EQ(after.files, before.files);
  if (!coir_test::thread_sanitizer && !coir_test::address_sanitizer) {  // which map memory of their own
    EXPECT_LT(after.mappings, before.mappings + 50);
  }
}

TEST_P(Runtime, StartsAndStopsOnSeveralThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> ran{0};
  const int rounds = coir_test::scaled(200);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < rounds; ++k) ran += run([] { return coir::spawn([] { return 1; }).get(); });
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(ran, 4 * rounds);
}

// Threads may go on with anything the moment their run() returns; another thread's run must not take them for blocked.
TEST_P(Runtime, AThreadWhoseRunIsOverIsNotTakenForBlocked) {
  for (int i = 0; i < coir_test::scaled(300); ++i) {
    coir::runtime rt{opts()};
    gate door;
    std::thread other([&] { EXPECT_NO_THROW(rt.run([&] { door.pass(); })); });
    rt.run([&] { coir_test::until([&] { return door.awaited(); }); });
    door.open();
    other.join();
    if (HasFailure()) break;
  }
}

TEST_P(Runtime, AThreadWhoseWaitIsOverInAnotherRuntimeIsNotTakenForBlocked) {
  for (int i = 0; i < coir_test::scaled(300); ++i) {
    coir::runtime one{opts()}, two{opts()};
    gate door;
    std::thread other([&] { EXPECT_NO_THROW(one.run([&] { door.pass(); })); });
    two.go([&] { coir_test::until([&] { return door.awaited(); }); });
    two.wait();
    door.open();
    other.join();
    if (HasFailure()) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Processors, Runtime, coir_test::processors, coir_test::processors_name);

}  // namespace
