// parallel_for, parallel_reduce, parallel_sort, parallel_invoke: what a plain loop does, on all processors.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <coir/chan.hpp>
#include <coir/dump.hpp>
#include <coir/latch.hpp>
#include <coir/mutex.hpp>
#include <coir/parallel.hpp>
#include <coir/runtime.hpp>
#include <coir/sleep.hpp>
#include <coir/task_group.hpp>
#include <coir/timeout.hpp>

#include "joining_test.hpp"

namespace {

using namespace sync_test;

/// Long enough that other processors find something to take over.
void compute(std::chrono::microseconds d) {
  for (const auto end = std::chrono::steady_clock::now() + d; std::chrono::steady_clock::now() < end;) {
  }
}

// ---- parallel_for --------------------------------------------------------------------------------------------------

class ParallelFor : public runtime_test::leak_checked {};

TEST_P(ParallelFor, RunsEveryBodyOnce) {
  run([] {
    for (const int n : {0, 1, 2, 3, 10, 63, 64, 65, 1'000, scaled(1'000'000)}) {
      std::vector<unsigned char> ran(static_cast<std::size_t>(n));  // each written by one body alone
      coir::parallel_for(0, n, [&](int i) { ++ran[static_cast<std::size_t>(i)]; });
      EXPECT_EQ(std::count(ran.begin(), ran.end(), 1), n);
    }
  });
}

TEST_P(ParallelFor, RunsEveryBodyOnceWhateverTheGrain) {
  run([] {
    for (const std::size_t grain : {std::size_t{1}, std::size_t{7}, std::size_t{1'000}, std::size_t{5'000}, SIZE_MAX}) {
      std::vector<unsigned char> ran(5'000);
      coir::parallel_for(std::size_t{0}, ran.size(), [&](std::size_t i) { ++ran[i]; }, {.grain = grain});
      EXPECT_EQ(std::count(ran.begin(), ran.end(), 1), 5'000) << grain;
    }
  });
}

TEST_P(ParallelFor, BodiesThatTakeLongRunOnEveryProcessor) {
  run([] {
    const unsigned at_once = std::min(GetParam(), 2U);
    std::atomic<unsigned> running = 0;
    // Nobody may count on it, but with an idle processor the first body is not alone for long.
    coir::parallel_for(0, 100, [&](int) {
      ++running;
      until([&] { return running >= at_once; });
    });
    EXPECT_EQ(running, 100U);
  });
}

TEST_P(ParallelFor, NeverRunsMoreBodiesAtOnceThanThereAreProcessors) {
  run([] {
    std::atomic<unsigned> running = 0;
    std::atomic<unsigned> most = 0;
    coir::parallel_for(0, 100, [&](int) {
      const unsigned now = ++running;
      unsigned seen = most;
      while (seen < now && !most.compare_exchange_weak(seen, now)) {
      }
      coir::sleep_for(100us);
      --running;
    });
    EXPECT_LE(most, GetParam());
  });
}

TEST_P(ParallelFor, IntegersOfAnyTypeUpToTheirLimits) {
  run([] {
    const auto sum = [](auto first, auto last) {
      std::atomic<std::int64_t> total = 0;
      coir::parallel_for(first, last, [&](auto i) {
        static_assert(std::is_same_v<decltype(i), std::common_type_t<decltype(first), decltype(last)>>);
        total += static_cast<std::int64_t>(i);
      });
      return total.load();
    };
    EXPECT_EQ(sum(INT_MAX - 2, INT_MAX), 2LL * INT_MAX - 3);
    EXPECT_EQ(sum(INT_MIN, INT_MIN + 2), 2LL * INT_MIN + 1);
    EXPECT_EQ(sum(INT64_MAX - 1, INT64_MAX), INT64_MAX - 1);
    EXPECT_EQ(sum(static_cast<signed char>(-128), static_cast<signed char>(127)), -255);
    EXPECT_EQ(sum(static_cast<unsigned char>(0), static_cast<unsigned char>(255)), 254 * 255 / 2);
    EXPECT_EQ(sum(-3, 4L), 0);
    EXPECT_EQ(sum(0, std::size_t{5}), 10);
  });
}

TEST_P(ParallelFor, NothingIsRunIfFirstIsNotBeforeLast) {
  run([] {
    const auto never = [](auto) { ADD_FAILURE(); };
    coir::parallel_for(0, 0, never);
    coir::parallel_for(1, 0, never);
    coir::parallel_for(INT_MAX, INT_MIN, never);
    coir::parallel_for(5U, 4U, never);
    coir::parallel_for(3U, -1, never);
    const std::vector<int> none;
    coir::parallel_for(none, never);
    coir::parallel_for(none.begin(), none.end(), never);
    const std::array<int, 3> three{};
    coir::parallel_for(three.end(), three.begin(), never);
  });
}

TEST_P(ParallelFor, ANegativeFirstOfAnUnsignedLoopIsRefused) {
  run([] { EXPECT_THROW(coir::parallel_for(-1, std::size_t{3}, [](auto) {}), std::invalid_argument); });
}

TEST_P(ParallelFor, TheLargestRangesAreCutShortByAnException) {
  run([] {
    std::atomic<int> ran = 0;
    EXPECT_THROW(coir::parallel_for(INT64_MIN, INT64_MAX,
                                    [&](std::int64_t i) {
                                      if (++ran == 1'000) throw failure("enough");
                                      EXPECT_GE(i, INT64_MIN);
                                    }),
                 failure);
    EXPECT_THROW(
        coir::parallel_for(std::uint64_t{0}, UINT64_MAX, [](std::uint64_t) { throw failure("at once"); }, {.grain = 3}),
        failure);
  });
}

TEST_P(ParallelFor, TakesIteratorsAndRanges) {
  run([] {
    std::vector<int> numbers(1'000, 1);
    coir::parallel_for(numbers, [](int& n) { n += 1; });
    coir::parallel_for(numbers.begin(), numbers.end() - 1, [](int& n) { n *= 2; });
    EXPECT_EQ(std::accumulate(numbers.begin(), numbers.end(), 0), 999 * 4 + 2);

    std::deque<std::string> words(100, "a");
    coir::parallel_for(words, [](std::string& s) { s += "b"; }, {.grain = 3});
    EXPECT_EQ(words.back(), "ab");

    std::atomic<long> sum = 0;
    const std::array<long, 4> four{1, 2, 3, 4};
    coir::parallel_for(four, [&](const long& n) { sum += n; });
    EXPECT_EQ(sum, 10);

    struct item {
      void bump() { ++value; }
      int value = 0;
    };
    std::array<item, 5> items;
    coir::parallel_for(std::span(items), &item::bump);
    EXPECT_EQ(items[4].value, 1);
  });
}

TEST_P(ParallelFor, TheBodyIsNotCopied) {
  run([] {
    struct body {
      body() = default;
      body(const body&) = delete;
      void operator()(int) { ++calls; }
      std::atomic<int> calls = 0;
    } b;
    coir::parallel_for(0, 100, b);
    EXPECT_EQ(b.calls, 100);
  });
}

TEST_P(ParallelFor, BodiesMayWaitForWhatTheBodiesBeforeThemDo) {
  run([] {
    for (const std::size_t grain : {std::size_t{0}, std::size_t{1}, std::size_t{10}}) {
      constexpr std::size_t n = 300;
      std::vector<coir::chan<int>> done;
      for (std::size_t i = 0; i <= n; ++i) done.push_back(coir::make_chan<int>(1));
      done[0].send(0);
      coir::parallel_for(std::size_t{0}, n, [&](std::size_t i) { done[i + 1].send(*done[i].recv() + 1); },
                         {.grain = grain});
      EXPECT_EQ(done[n].recv(), 300);
    }
  });
}

TEST_P(ParallelFor, BodiesMayLockMutexesTalkToFibersAndStartSome) {
  run([] {
    coir::mutex lock;
    int locked = 0;
    const auto requests = coir::make_chan<coir::chan<int>>();
    coir::task<void> server = coir::spawn([&] {
      int n = 0;
      for (const coir::chan<int>& reply : requests) reply.send(++n);
    });
    std::atomic<int> replies = 0;
    coir::parallel_for(0, 200, [&](int i) {
      {
        const std::lock_guard guard(lock);
        if (i % 10 == 0) coir::yield();
        ++locked;
      }
      const auto reply = coir::make_chan<int>();
      requests.send(reply);
      replies += *reply.recv();
      coir::task_group group;
      group.spawn([&] { coir::yield(); });
      group.wait();
    });
    requests.close();
    server.get();
    EXPECT_EQ(locked, 200);
    EXPECT_EQ(replies, 200 * 201 / 2);
  });
}

TEST_P(ParallelFor, ABodyThatBlocksForLongDoesNotHoldUpTheRestIfThereIsAnotherProcessor) {
  if (GetParam() == 1) GTEST_SKIP() << "as in a plain loop, the others come after it";
  run([] {
    const auto all_others = coir::make_chan<void>();
    std::atomic<int> others = 0;
    // It waits for bodies after it, which nobody may count on; but here there is a second processor.
    coir::parallel_for(0, 100, [&](int i) {
      if (i == 0)
        all_others.recv();
      else if (++others == 99)
        all_others.close();
    });
  });
}

TEST_P(ParallelFor, Nests) {
  run([] {
    std::atomic<int> ran = 0;
    coir::parallel_for(
        0, 20, [&](int) { coir::parallel_for(0, 20, [&](int) { coir::parallel_for(0, 20, [&](int) { ++ran; }); }); });
    EXPECT_EQ(ran, 8'000);
  });
}

TEST_P(ParallelFor, AnExceptionEndsTheLoopEarlyAndIsRethrownWhenTheBodiesThatBeganHaveEnded) {
  run([] {
    std::atomic<int> began = 0;
    std::atomic<int> ended = 0;
    expect_throw_message<failure>(
        [&] {
          coir::parallel_for(0, 100'000'000, [&](int i) {
            struct count_end {
              std::atomic<int>& ended;
              ~count_end() { ++ended; }
            };
            ++began;
            const count_end end{ended};
            if (i == 500) throw failure("the 500th");
          });
        },
        "the 500th");
    EXPECT_EQ(began, ended);
    EXPECT_LT(began, 100'000'000);
  });
}

TEST_P(ParallelFor, AnExceptionCancelsTheBodiesThatBlock) {
  if (GetParam() == 1) GTEST_SKIP() << "there are no helpers";
  run([] {
    const auto never = coir::make_chan<int>();
    std::atomic<bool> waits = false;
    std::atomic<bool> unwound = false;
    expect_throw_message<failure>(
        [&] {
          coir::parallel_for(0, 2,
                             [&](int i) {
                               if (i == 0) {
                                 until([&] { return waits.load(); });
                                 throw failure("the caller's");
                               }
                               waits = true;
                               try {
                                 never.recv();
                               } catch (const coir::cancelled&) {
                                 unwound = true;
                                 throw;
                               }
                             },
                             {.grain = 1});
        },
        "the caller's");
    EXPECT_TRUE(unwound);
  });
}

TEST_P(ParallelFor, AnExceptionInAHelperInterruptsTheCallersOwnBody) {
  if (GetParam() == 1) GTEST_SKIP() << "there are no helpers";
  run([] {
    const auto never = coir::make_chan<int>();
    std::atomic<bool> waits = false;
    expect_throw_message<failure>(
        [&] {
          coir::parallel_for(0, 2,
                             [&](int i) {
                               if (i == 0) {
                                 waits = true;
                                 never.recv();
                               }
                               until([&] { return waits.load(); });
                               throw failure("of the helper");
                             },
                             {.grain = 1});
        },
        "of the helper");
    EXPECT_NO_THROW(coir::sleep_for(1us));  // the caller is not cancelled
  });
}

TEST_P(ParallelFor, ABodyThatThrowsCancelledItselfBesideTheCallerFails) {
  if (GetParam() == 1) GTEST_SKIP() << "nobody helps";
  run([] {
    const coir::this_fiber::id caller = coir::this_fiber::get_id();
    std::atomic<int> unwound{0};
    std::atomic<bool> helped{false};
    std::atomic<bool> waits{false};
    const auto never = coir::make_chan<void>();
    EXPECT_THROW(coir::parallel_for(0, INT_MAX,
                                    [&](int) {
                                      if (coir::this_fiber::get_id() != caller && !helped.exchange(true)) {
                                        until([&] { return waits.load(); });
                                        throw coir::cancelled();
                                      }
                                      if (!helped) return coir::yield();
                                      waits = true;
                                      try {
                                        never.recv();
                                      } catch (const coir::cancelled&) {
                                        ++unwound;
                                        throw;
                                      }
                                    }),
                 coir::task_cancelled);
    EXPECT_GE(unwound, 1);
    EXPECT_NO_THROW(coir::sleep_for(1us));  // the caller is not cancelled
  });
}

TEST_P(ParallelFor, ADeadlockOfItsBodiesIsNoReturn) {
  EXPECT_THROW(run([] {
                 const coir::this_fiber::id caller = coir::this_fiber::get_id();
                 coir::parallel_for(0, 100, [&](int i) {
                   if (coir::this_fiber::get_id() != caller || i == 99) coir::make_chan<int>().recv();
                 });
                 ADD_FAILURE() << "it returned";
               }),
               coir::deadlock);
}

// What the bodies have started uses the frames of the caller, who is unwound after it.
TEST_P(ParallelFor, ADeadlockUnwindsTheCallerAfterWhatItsBodiesStarted) {
  std::atomic<int> early{0};
  std::atomic<bool> there{true};
  struct leaves {
    std::atomic<bool>& there;
    ~leaves() { there = false; }
  };
  EXPECT_THROW(run([&] {
                 const leaves at_end{there};
                 coir::parallel_for(0, 8, [&](int) {
                   coir::go([&] {
                     try {
                       coir::make_chan<int>().recv();
                     } catch (const coir::cancelled&) {
                       const coir::uncancellable guard;
                       for (int i = 0; i < 10; ++i) coir::yield();
                       if (!there) ++early;
                       throw;
                     }
                   });
                   coir::make_chan<int>().recv();
                 });
               }),
               coir::deadlock);
  EXPECT_EQ(early, 0);
}

TEST_P(ParallelFor, CancellationOfTheCallerEndsTheLoop) {
  run([] {
    const auto never = coir::make_chan<int>();
    std::atomic<int> began = 0;
    std::atomic<int> ended = 0;
    coir::task<void> caller = coir::spawn([&] {
      coir::parallel_for(0, 100, [&](int) {
        struct count_end {
          std::atomic<int>& ended;
          ~count_end() { ++ended; }
        };
        ++began;
        const count_end end{ended};
        never.recv();
      });
      ADD_FAILURE() << "it was cancelled";
    });
    until([&] { return began >= 1; });
    caller.request_stop();
    caller.wait();
    EXPECT_EQ(began, ended);
    EXPECT_LT(began, 100);
  });
}

TEST_P(ParallelFor, CancellationIsSeenByALoopThatNeverBlocks) {
  run([] {
    std::atomic<bool> runs = false;
    coir::task<void> caller =
        coir::spawn([&] { coir::parallel_for(std::uint64_t{0}, UINT64_MAX, [&](std::uint64_t) { runs = true; }); });
    until([&] { return runs.load(); });
    caller.request_stop();
    caller.wait();
  });
}

TEST_P(ParallelFor, AnExpiredTimeoutEndsTheLoop) {
  run([] {
    std::atomic<std::int64_t> last = 0;
    EXPECT_THROW(coir::timeout(2ms, [&] { coir::parallel_for(std::int64_t{0}, INT64_MAX, [&](auto i) { last = i; }); }),
                 coir::timed_out);
  });
}

TEST_P(ParallelFor, ACancelledUncancellableCallerFinishesTheLoop) {
  run([] {
    std::atomic<int> ran = 0;
    std::atomic<bool> stopped = false;
    coir::task<void> caller = coir::spawn([&] {
      const coir::uncancellable guard;
      until([&] { return stopped.load(); });
      coir::parallel_for(0, 1'000, [&](int) { ++ran; });
    });
    caller.request_stop();
    stopped = true;
    caller.wait();
    EXPECT_EQ(ran, 1'000);
  });
}

TEST_P(ParallelFor, OthersRunBesideALoopThatComputes) {
  run([] {
    std::atomic<bool> over = false;
    int turns = 0;
    coir::task<void> other = coir::spawn([&] {
      while (!over) {
        ++turns;
        coir::yield();
      }
    });
    coir::parallel_for(0, 400, [&](int) { compute(100us); });
    over = true;
    other.get();
    EXPECT_GE(turns, 1);
  });
}

TEST_P(ParallelFor, ADeadlockOfItsBodiesIsReported) {
  expect_throw_message<coir::deadlock>(
      [&] {
        run([] {
          const auto never = coir::make_chan<int>();
          coir::parallel_for(0, 10, [&](int) { never.recv(); });
        });
      },
      "all fibers are asleep");
}

TEST_P(ParallelFor, RandomLoopsRunEachBodyOnceOrFail) {
  run([] {
    std::mt19937 random(GetParam());
    for (int round = 0; round < scaled(400); ++round) {
      const std::size_t n = random() % 3'000;
      const std::size_t fails = random() % 4 == 0 ? random() % 3'000 : SIZE_MAX;
      const unsigned how = random() % 4;
      std::vector<std::atomic<int>> ran(n);
      std::atomic<int> inside = 0;
      const auto body = [&](std::size_t i) {
        ++inside;
        struct leave {
          std::atomic<int>& inside;
          ~leave() { --inside; }
        } const leaves{inside};
        if (++ran[i] > 1) ADD_FAILURE() << "twice";
        if (how == 1 && i % 16 == 0) coir::yield();
        if (how == 2 && i % 64 == 0) coir::sleep_for(10us);
        if (how == 3 && i % 256 == 0) coir::parallel_for(0, 10, [](int) { coir::yield(); });
        if (i == fails) throw failure("chosen");
      };
      try {
        coir::parallel_for(std::size_t{0}, n, body, {.grain = random() % 3 == 0 ? random() % 50 : 0});
        EXPECT_TRUE(fails >= n);
        EXPECT_TRUE(std::all_of(ran.begin(), ran.end(), [](const auto& r) { return r == 1; }));
      } catch (const failure&) {
        EXPECT_LT(fails, n);
      }
      EXPECT_EQ(inside, 0);
    }
  });
}

TEST_P(ParallelFor, RandomCancellationsLeaveNothing) {
  run([] {
    std::mt19937 random(GetParam() + 100);
    for (int round = 0; round < scaled(300); ++round) {
      std::atomic<int> inside = 0;
      coir::task<void> caller = coir::spawn([&] {
        coir::parallel_for(0, 500, [&](int i) {
          ++inside;
          struct leave {
            std::atomic<int>& inside;
            ~leave() { --inside; }
          } const leaves{inside};
          if (i % 8 == 0) coir::sleep_for(1us);
        });
      });
      for (auto i = random() % 20; i > 0; --i) coir::yield();
      if (random() % 2 == 0) coir::sleep_for(std::chrono::microseconds(random() % 100));
      caller.request_stop();
      caller.wait();
      EXPECT_EQ(inside, 0);
    }
  });
}

TEST(ParallelOutside, ThrowsNotInRuntime) {
  std::vector<int> v{2, 1};
  expect_throw_message<coir::not_in_runtime>([] { coir::parallel_for(0, 1, [](int) {}); }, "coir::parallel_for");
  expect_throw_message<coir::not_in_runtime>([] { coir::parallel_for(0, 0, [](int) {}); }, "coir::parallel_for");
  expect_throw_message<coir::not_in_runtime>(
      [&] { static_cast<void>(coir::parallel_reduce(v, 0, std::identity(), std::plus<>())); }, "coir::parallel_reduce");
  expect_throw_message<coir::not_in_runtime>([&] { coir::parallel_sort(v); }, "coir::parallel_sort");
  expect_throw_message<coir::not_in_runtime>([] { coir::parallel_invoke([] {}); }, "coir::parallel_invoke");
}

// ---- parallel_reduce -----------------------------------------------------------------------------------------------

class ParallelReduce : public runtime_test::leak_checked {};

TEST_P(ParallelReduce, CombinesAllInTheOrderOfTheRange) {
  run([] {
    for (const int n : {0, 1, 2, 3, 5, 64, 1'000, 4'095, 4'096, 4'097, 9'999, 50'000}) {
      // Concatenation is associative, and not commutative.
      const std::string text = coir::parallel_reduce(
          0, n, std::string(), [](int i) { return std::string(1, static_cast<char>('a' + i % 26)); },
          [](std::string a, const std::string& b) { return std::move(a) + b; });
      std::string expected;
      for (int i = 0; i < n; ++i) expected += static_cast<char>('a' + i % 26);
      EXPECT_EQ(text, expected) << n;
    }
  });
}

TEST_P(ParallelReduce, TakesIteratorsRangesAndGrains) {
  run([] {
    std::vector<int> v(10'000);
    std::iota(v.begin(), v.end(), 0);
    const long sum = 9'999L * 5'000;
    const auto wide = [](int n) { return long{n}; };
    EXPECT_EQ(coir::parallel_reduce(v.begin(), v.end(), 0L, wide, std::plus<>()), sum);
    EXPECT_EQ(coir::parallel_reduce(v, 0L, wide, std::plus<>()), sum);
    for (const std::size_t grain : {std::size_t{1}, std::size_t{3}, std::size_t{9'999}, SIZE_MAX})
      EXPECT_EQ(coir::parallel_reduce(v, 0L, wide, std::plus<>(), {.grain = grain}), sum);
    EXPECT_EQ(coir::parallel_reduce(v, INT_MIN, std::identity(), [](int a, int b) { return std::max(a, b); }), 9'999);
  });
}

double rounded_sum(unsigned processors) {
  coir::options o;
  o.processors = processors;
  return coir::run(o,
                   [] { return coir::parallel_reduce(1, 100'000, 0.0, [](int i) { return 1.0 / i; }, std::plus<>()); });
}

TEST_P(ParallelReduce, SumsOfFloatingPointNumbersAreTheSameEveryTimeAndOnAnyNumberOfProcessors) {
  const double once = rounded_sum(1);
  for (int i = 0; i < scaled(50); ++i) EXPECT_EQ(rounded_sum(GetParam()), once);
}

TEST_P(ParallelReduce, ValuesMayBeMoveOnly) {
  run([] {
    const auto sum = coir::parallel_reduce(
        0, 5'000, std::make_unique<long>(0), [](int i) { return std::make_unique<long>(i); },
        [](std::unique_ptr<long> a, const std::unique_ptr<long>& b) {
          *a += *b;
          return a;
        });
    EXPECT_EQ(*sum, 4'999L * 2'500);
  });
}

TEST_P(ParallelReduce, AFailureOfMapOrCombineLeavesNothing) {
  run([] {
    for (int fails = 0; fails < 10'000; fails += 1'111) {
      EXPECT_THROW(static_cast<void>(coir::parallel_reduce(
                       0, 10'000, counted(0),
                       [&](int i) {
                         if (i == fails) throw failure("map");
                         return counted(i);
                       },
                       [](const counted& a, const counted& b) { return counted(a.value() + b.value()); })),
                   failure);
      std::atomic<int> combined = 0;
      EXPECT_THROW(static_cast<void>(coir::parallel_reduce(
                       0, 10'000, counted(0), [](int i) { return counted(i); },
                       [&](const counted& a, const counted&) {
                         if (++combined == fails + 1) throw failure("combine");
                         return counted(a.value());
                       })),
                   failure);
    }
  });
}

TEST_P(ParallelReduce, MapsMayBlockAndNest) {
  run([] {
    coir::mutex lock;
    const int total = coir::parallel_reduce(
        0, 100, 0,
        [&](int i) {
          const std::lock_guard guard(lock);
          return coir::parallel_reduce(
              0, i, 0,
              [](int) {
                coir::yield();
                return 1;
              },
              std::plus<>());
        },
        std::plus<>());
    EXPECT_EQ(total, 4'950);
  });
}

// ---- parallel_sort -------------------------------------------------------------------------------------------------

class ParallelSort : public runtime_test::leak_checked {};

std::vector<std::vector<int>> inputs(std::size_t n) {
  const int m = static_cast<int>(n);
  std::mt19937 random(42);
  std::vector<std::vector<int>> all;
  const auto add = [&](auto f) {
    std::vector<int> v(n);
    for (int i = 0; i < m; ++i) v[static_cast<std::size_t>(i)] = f(i);
    all.push_back(std::move(v));
  };
  add([](int i) { return i; });
  add([&](int i) { return m - i; });
  add([](int) { return 7; });
  add([&](int i) { return std::min(i, m - i); });  // organ pipe
  add([&](int i) { return std::max(i, m - i); });
  add([](int i) { return i % 2; });
  add([](int i) { return i % 5; });
  add([&](int i) { return i % 1'000 == 0 ? static_cast<int>(random() % 1'000) : i; });  // nearly sorted
  add([&](int) { return static_cast<int>(random()); });
  add([&](int) { return static_cast<int>(random() % 16); });
  add([](int i) { return static_cast<int>((std::uint64_t{static_cast<unsigned>(i)} * 2654435761U) % 65'536); });
  add([&](int i) { return i < m / 2 ? 2 * i : 2 * (i - m / 2) + 1; });  // two sorted runs
  add([](int i) { return i ^ 0x155; });
  return all;
}

TEST_P(ParallelSort, SortsAsStdSortDoes) {
  run([] {
    for (const int n : {0, 1, 2, 3, 100, 193, 1'000, 2'500, 20'000, scaled(300'000)}) {
      for (const std::vector<int>& input : inputs(static_cast<std::size_t>(n))) {
        std::vector<int> expected = input;
        std::sort(expected.begin(), expected.end());
        std::vector<int> sorted = input;
        coir::parallel_sort(sorted);
        EXPECT_TRUE(sorted == expected) << n;
        std::sort(expected.begin(), expected.end(), std::greater<>());
        sorted = input;
        coir::parallel_sort(sorted, std::greater<>());
        EXPECT_TRUE(sorted == expected) << n;
      }
    }
  });
}

/// M. D. McIlroy, "A Killer Adversary for Quicksort", 1999: an order that is made up while it is asked for, so that
/// every pivot is a bad one.
class adversary {
 public:
  explicit adversary(std::size_t n) : values_(n, gas(n)) {}

  bool less(int a, int b) {
    const std::lock_guard lock(lock_);
    ++comparisons_;
    std::size_t& x = values_[static_cast<std::size_t>(a)];
    std::size_t& y = values_[static_cast<std::size_t>(b)];
    if (x == gas(values_.size()) && y == gas(values_.size())) (a == candidate_ ? x : y) = solid_++;
    if (x == gas(values_.size()))
      candidate_ = a;
    else if (y == gas(values_.size()))
      candidate_ = b;
    return x < y;
  }
  std::size_t comparisons() const { return comparisons_; }

 private:
  static std::size_t gas(std::size_t n) { return n; }

  coir::mutex lock_;
  std::vector<std::size_t> values_;
  std::size_t solid_ = 0;
  int candidate_ = 0;
  std::size_t comparisons_ = 0;
};

TEST_P(ParallelSort, TheWorstInputIsNotQuadratic) {
  run([] {
    const int n = scaled(100'000) + 5'000;
    adversary order(static_cast<std::size_t>(n));
    std::vector<int> v(static_cast<std::size_t>(n));
    std::iota(v.begin(), v.end(), 0);
    std::reverse(v.begin(), v.end());
    const auto less = [&](int a, int b) { return order.less(a, b); };
    coir::parallel_sort(v, less);
    EXPECT_LT(order.comparisons(), 100 * v.size());
    EXPECT_TRUE(std::is_sorted(v.begin(), v.end(), less));
  });
}

TEST_P(ParallelSort, MoveOnlyElementsStringsAndDeques) {
  run([] {
    std::mt19937 random(1);
    std::vector<std::unique_ptr<int>> owned;
    for (int i = 0; i < 20'000; ++i) owned.push_back(std::make_unique<int>(static_cast<int>(random())));
    coir::parallel_sort(owned, [](const auto& a, const auto& b) { return *a < *b; });
    EXPECT_TRUE(std::is_sorted(owned.begin(), owned.end(), [](const auto& a, const auto& b) { return *a < *b; }));

    std::deque<std::string> words;
    for (int i = 0; i < 20'000; ++i) words.push_back(std::to_string(random() % 5'000));
    coir::parallel_sort(words);
    EXPECT_TRUE(std::is_sorted(words.begin(), words.end()));

    std::vector<int> part(10'000);
    for (int& n : part) n = static_cast<int>(random());
    coir::parallel_sort(std::span(part).subspan(100, 9'000));
    EXPECT_TRUE(std::is_sorted(part.begin() + 100, part.begin() + 9'100));
  });
}

TEST_P(ParallelSort, AComparisonThatThrowsEndsItAndLeavesNothing) {
  run([] {
    std::mt19937 random(5);
    for (int fails = 1; fails < 1'000'000; fails *= 3) {
      std::vector<counted> v;
      for (int i = 0; i < 10'000; ++i) v.emplace_back(static_cast<int>(random() % 100'000));
      std::atomic<int> compared = 0;
      try {
        coir::parallel_sort(v, [&](const counted& a, const counted& b) {
          if (++compared == fails) throw failure("chosen");
          return a.value() < b.value();
        });
        EXPECT_LT(compared, fails);
      } catch (const failure&) {
      }
      EXPECT_EQ(v.size(), 10'000U);
    }
  });
}

TEST_P(ParallelSort, CancellationEndsIt) {
  run([] {
    std::vector<int> v(scaled(2'000'000) + 100'000);
    std::mt19937 random(3);
    for (int& n : v) n = static_cast<int>(random());
    const std::vector<int> before = v;
    std::atomic<bool> sorts = false;
    coir::task<void> caller = coir::spawn([&] {
      coir::parallel_sort(v, [&](int a, int b) {
        sorts = true;
        return a < b;
      });
    });
    until([&] { return sorts.load(); });
    caller.request_stop();
    caller.wait();
    EXPECT_TRUE(std::is_permutation(v.begin(), v.begin() + 10, v.begin()));
    EXPECT_EQ(std::accumulate(v.begin(), v.end(), 0LL), std::accumulate(before.begin(), before.end(), 0LL));
  });
}

TEST_P(ParallelSort, ComparisonsMayBlock) {
  run([] {
    std::mt19937 random(8);
    std::vector<int> v(5'000);
    for (int& n : v) n = static_cast<int>(random());
    coir::mutex lock;
    coir::parallel_sort(v, [&](int a, int b) {
      const std::lock_guard guard(lock);
      if (a % 64 == 0) coir::yield();
      return a < b;
    });
    EXPECT_TRUE(std::is_sorted(v.begin(), v.end()));
  });
}

// ---- parallel_invoke -----------------------------------------------------------------------------------------------

class ParallelInvoke : public runtime_test::leak_checked {};

TEST_P(ParallelInvoke, CallsEachOnce) {
  run([] {
    coir::parallel_invoke();
    int a = 0, b = 0, c = 0;
    const auto constant = [&] { ++a; };
    coir::parallel_invoke(
        constant, [&, owned = std::make_unique<int>(2)]() mutable { b += *owned; },
        [&] {
          ++c;
          return "dropped";
        });
    EXPECT_EQ(a, 1);
    EXPECT_EQ(b, 2);
    EXPECT_EQ(c, 1);
  });
}

int fibonacci(int n) {
  if (n < 2) return n;
  int a = 0, b = 0;
  coir::parallel_invoke([&] { a = fibonacci(n - 1); }, [&] { b = fibonacci(n - 2); });
  return a + b;
}

TEST_P(ParallelInvoke, Recurses) {
  run([] { EXPECT_EQ(fibonacci(coir_test::thread_sanitizer ? 10 : 16), coir_test::thread_sanitizer ? 55 : 987); });
}

TEST_P(ParallelInvoke, WhoHelpsIsListedWithTheLineOfTheCall) {
  if (GetParam() == 1) GTEST_SKIP() << "nobody helps";
  run([] {
    coir::latch both(2), listed(1);
    std::string listing;
    const auto waits = [&] {
      both.arrive_and_wait();
      listed.wait();
    };
    const auto lists = [&] {
      both.arrive_and_wait();
      std::ostringstream out;
      coir::dump(out);
      listing = out.str();
      listed.count_down();
    };
    const int line = __LINE__ + 1;
    coir::parallel_invoke(waits, lists);
    EXPECT_NE(listing.find("parallel_test.cpp:" + std::to_string(line) + ':'), std::string::npos) << listing;
  });
}

TEST_P(ParallelInvoke, TheFirstFailureIsRethrownWhenAllThatBeganHaveEnded) {
  run([] {
    const auto never = coir::make_chan<int>();
    expect_throw_message<failure>(
        [&] { coir::parallel_invoke([] { throw failure("first"); }, [&] { never.recv(); }, [&] { never.recv(); }); },
        "first");
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, ParallelFor, coir_test::processors, coir_test::processors_name);
INSTANTIATE_TEST_SUITE_P(Processors, ParallelReduce, coir_test::processors, coir_test::processors_name);
INSTANTIATE_TEST_SUITE_P(Processors, ParallelSort, coir_test::processors, coir_test::processors_name);
INSTANTIATE_TEST_SUITE_P(Processors, ParallelInvoke, coir_test::processors, coir_test::processors_name);

}  // namespace
