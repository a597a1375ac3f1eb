// concurrently, race, map_concurrently: branches that end together.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <list>
#include <memory>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include <coir/chan.hpp>
#include <coir/concurrent.hpp>
#include <coir/runtime.hpp>
#include <coir/sleep.hpp>
#include <coir/timeout.hpp>

#include "joining_test.hpp"

namespace {

using namespace sync_test;

/// Blocks until cancelled, and tells that it was.
class stuck {
 public:
  void operator()() {
    ++entered_;
    try {
      never_.recv();
    } catch (const coir::cancelled&) {
      ++unwound_;
      throw;
    }
  }
  void until_entered(int times = 1) const {
    until([&] { return entered_ >= times; });
  }
  int unwound() const { return unwound_; }

 private:
  coir::chan<void> never_ = coir::make_chan<void>();
  std::atomic<int> entered_{0};
  std::atomic<int> unwound_{0};
};

// Clang 14 cannot compile libstdc++'s views, so these are ranges of this test's own.
std::vector<int> numbers_below(int n) {
  std::vector<int> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// An input range whose n-th element is f(n), for ever or up to an end.
template <class F>
class made {
 public:
  class iterator {
   public:
    using value_type = std::invoke_result_t<const F&, int>;
    using difference_type = std::ptrdiff_t;

    iterator(const F* f, int n) : f_(f), n_(n) {}
    value_type operator*() const { return (*f_)(n_); }
    iterator& operator++() {
      ++n_;
      return *this;
    }
    void operator++(int) { ++n_; }
    bool operator==(int end) const { return n_ == end; }

   private:
    const F* f_;
    int n_;
  };

  explicit made(F f, int end = -1) : f_(std::move(f)), end_(end) {}
  iterator begin() const { return {&f_, 0}; }
  int end() const { return end_; }

 private:
  F f_;
  int end_;
};

int same(int n) { return n; }

// ---- concurrently --------------------------------------------------------------------------------------------------

class Concurrently : public runtime_test::leak_checked {};

TEST_P(Concurrently, ReturnsWhatTheBranchesReturnInTheOrderWritten) {
  run([] {
    auto [number, text, nothing, owned] = coir::concurrently([] { return 1; }, [] { return std::string("two"); }, [] {},
                                                             [] { return std::make_unique<int>(4); });
    EXPECT_EQ(number, 1);
    EXPECT_EQ(text, "two");
    EXPECT_EQ(nothing, std::monostate());
    EXPECT_EQ(*owned, 4);
  });
}

TEST_P(Concurrently, BranchesMayWaitForOneAnother) {
  run([] {
    const auto there = coir::make_chan<int>();
    const auto back = coir::make_chan<int>();
    const auto [asked, answered] = coir::concurrently(
        [&] {
          there.send(20);
          return *back.recv();
        },
        [&] {
          const int n = *there.recv();
          back.send(n + 1);
          return n;
        });
    EXPECT_EQ(asked, 21);
    EXPECT_EQ(answered, 20);
  });
}

TEST_P(Concurrently, KeepsReferences) {
  run([] {
    int n = 1;
    auto [same, zero] = coir::concurrently([&]() -> int& { return n; }, [] { return 0; });
    same = 5;
    EXPECT_EQ(n, 5);
    EXPECT_EQ(zero, 0);
  });
}

TEST_P(Concurrently, OfNothingReturnsNothing) {
  run([] { EXPECT_EQ(coir::concurrently(), std::tuple<>()); });
}

TEST_P(Concurrently, TheFirstFailureCancelsTheOthersAndIsRethrownWhenAllHaveEnded) {
  run([] {
    stuck others;
    expect_throw_message<failure>(
        [&] {
          static_cast<void>(coir::concurrently([&] { others(); }, [&] { others(); },
                                               [&] {
                                                 others.until_entered(2);
                                                 throw failure("the first");
                                               }));
        },
        "the first");
    EXPECT_EQ(others.unwound(), 2);
  });
}

TEST_P(Concurrently, DropsTheResultsOfAFailedCall) {
  run([] {
    EXPECT_THROW(
        static_cast<void>(coir::concurrently([] { return counted(1); }, []() -> counted { throw failure("no"); })),
        failure);
  });
}

TEST_P(Concurrently, ACancelledCallerCancelsTheBranches) {
  run([] {
    stuck both;
    coir::task<void> caller =
        coir::spawn([&] { static_cast<void>(coir::concurrently([&] { both(); }, [&] { both(); })); });
    both.until_entered(2);
    until_blocked(caller);
    caller.request_stop();
    caller.wait();
    EXPECT_EQ(both.unwound(), 2);
  });
}

TEST_P(Concurrently, AnExpiredTimeoutCancelsTheBranches) {
  run([] {
    stuck both;
    EXPECT_THROW(coir::timeout(1ms, [&] { static_cast<void>(coir::concurrently([&] { both(); }, [&] { both(); })); }),
                 coir::timed_out);
    EXPECT_NO_THROW(coir::sleep_for(1us));
  });
}

TEST_P(Concurrently, Nests) {
  run([] {
    const auto [left, right] = coir::concurrently(
        [] {
          const auto [a, b] = coir::concurrently([] { return 1; }, [] { return 2; });
          return a + b;
        },
        [] {
          const auto [a, b] = coir::concurrently([] { return 3; }, [] { return 4; });
          return a + b;
        });
    EXPECT_EQ(left + right, 10);
  });
}

TEST_P(Concurrently, ADeadlockOfItsBranchesIsReported) {
  expect_throw_message<coir::deadlock>(
      [&] {
        run([] {
          const auto never = coir::make_chan<int>();
          static_cast<void>(coir::concurrently([&] { never.recv(); }, [&] { never.recv(); }));
        });
      },
      "all fibers are asleep");
}

TEST_P(Concurrently, ABranchThatThrowsCancelledItselfFails) {
  run([] {
    stuck others;
    EXPECT_THROW(static_cast<void>(coir::concurrently([&] { others(); },
                                                      [&] {
                                                        others.until_entered();
                                                        throw coir::cancelled();
                                                      })),
                 coir::task_cancelled);
    EXPECT_EQ(others.unwound(), 1);
    EXPECT_NO_THROW(coir::sleep_for(1us));  // the caller is not cancelled
  });
}

// The branches are unwound before their caller, which is told of the deadlock, too, and not of their end.
TEST_P(Concurrently, ADeadlockOfTheBranchesOfAFiberThatNobodyJoinsIsReported) {
  expect_throw_message<coir::deadlock>(
      [&] {
        run([] {
          const auto never = coir::make_chan<int>();
          coir::go([never] { static_cast<void>(coir::concurrently([&] { never.recv(); }, [&] { never.recv(); })); });
          never.recv();
        });
      },
      "all fibers are asleep");
}

TEST_P(Concurrently, ADeadlockOfRacersIsReported) {
  for (const bool joined : {false, true}) {
    expect_throw_message<coir::deadlock>(
        [&] {
          run([&] {
            const auto never = coir::make_chan<int>();
            const auto racing = [never] { coir::race([&] { never.recv(); }, [&] { never.recv(); }); };
            if (joined) {
              racing();
            } else {
              coir::go(racing);
              never.recv();
            }
          });
        },
        "all fibers are asleep");
  }
}

TEST(ConcurrentlyOutside, ThrowsNotInRuntime) {
  expect_throw_message<coir::not_in_runtime>([] { static_cast<void>(coir::concurrently([] {})); },
                                             "coir::concurrently");
  expect_throw_message<coir::not_in_runtime>([] { coir::race([] { return 1; }); }, "coir::race");
  expect_throw_message<coir::not_in_runtime>([] { coir::map_concurrently(std::vector{1}, 1, [](int) {}); },
                                             "coir::map_concurrently");
}

// ---- race ----------------------------------------------------------------------------------------------------------

class Race : public runtime_test::leak_checked {};

TEST_P(Race, TheFirstThatSucceedsWinsAndTheOthersHaveEndedWhenItReturns) {
  run([] {
    stuck losers;
    const std::variant<std::monostate, int, std::string> result = coir::race([&] { losers(); },
                                                                             [&] {
                                                                               losers();
                                                                               return 1;
                                                                             },
                                                                             [&] {
                                                                               losers.until_entered(2);
                                                                               return std::string("won");
                                                                             });
    EXPECT_EQ(std::get<2>(result), "won");
    EXPECT_EQ(losers.unwound(), 2);
  });
}

TEST_P(Race, AFailureIsNoSuccess) {
  run([] {
    std::atomic<bool> failed = false;
    const auto result = coir::race(
        [&]() -> int {
          failed = true;
          throw failure("slow server");
        },
        [&] {
          until([&] { return failed.load(); });
          return 7;
        });
    EXPECT_EQ(result.index(), 1U);
    EXPECT_EQ(std::get<1>(result), 7);
  });
}

TEST_P(Race, IfAllFailHoldsEveryExceptionInTheOrderOfTheArguments) {
  run([] {
    const auto last_first = coir::make_chan<void>();
    try {
      coir::race(
          [&]() -> int {
            last_first.recv();
            throw failure("first");
          },
          [&]() -> int {
            last_first.close();
            throw std::logic_error("second");
          });
      ADD_FAILURE() << "nobody has won";
    } catch (const coir::race_failed& e) {
      ASSERT_EQ(e.exceptions().size(), 2U);
      EXPECT_THROW(std::rethrow_exception(e.exceptions()[0]), failure);
      EXPECT_THROW(std::rethrow_exception(e.exceptions()[1]), std::logic_error);
      const std::string what = e.what();
      EXPECT_LT(what.find("first"), what.find("second")) << what;
    }
  });
}

TEST_P(Race, WhatALoserThrowsOrReturnsIsDropped) {
  run([] {
    stuck loser;
    const auto result = coir::race(
        [&] {
          try {
            loser();
          } catch (const coir::cancelled&) {
          }
          return counted(1);
        },
        [&]() -> counted {
          try {
            loser();
          } catch (const coir::cancelled&) {
          }
          throw failure("late");
        },
        [&] {
          loser.until_entered(2);
          return counted(3);
        });
    EXPECT_EQ(std::get<2>(result).value(), 3);
  });
}

TEST_P(Race, TheWinnersCapturesMayBlockWhenTheyAreDestroyed) {
  run([] {
    const auto gone = coir::make_chan<int>();
    struct blocks {
      coir::chan<int> to;
      ~blocks() {
        if (to) to.send(1);
      }
      explicit blocks(coir::chan<int> c) : to(std::move(c)) {}
      blocks(blocks&& other) noexcept : to(std::exchange(other.to, {})) {}
    };
    coir::task<int> reader = coir::spawn([&] { return *gone.recv(); });
    coir::race([&] {
      const blocks b(gone);
      return 1;
    });
    EXPECT_EQ(reader.get(), 1);
  });
}

TEST_P(Race, ReferencesAndMoveOnlyResults) {
  run([] {
    int n = 0;
    const auto reference = coir::race([&]() -> int& { return n; });
    EXPECT_EQ(&std::get<0>(reference).get(), &n);
    const auto owned = coir::race([] { return std::make_unique<int>(3); });
    EXPECT_EQ(*std::get<0>(owned), 3);
  });
}

TEST_P(Race, ACancelledCallerCancelsTheBranches) {
  run([] {
    stuck both;
    coir::task<void> caller = coir::spawn([&] { coir::race([&] { both(); }, [&] { both(); }); });
    both.until_entered(2);
    until_blocked(caller);
    caller.request_stop();
    caller.wait();
    EXPECT_EQ(both.unwound(), 2);
  });
}

TEST_P(Race, ExactlyOneOfManyAtOnceWins) {
  run([] {
    for (int i = 0; i < scaled(2'000); ++i) {
      const auto r = coir::race([] { return counted(0); }, [] { return counted(1); }, [] { return counted(2); },
                                []() -> counted { throw failure("never wins"); });
      const int value = std::visit([](const counted& c) { return c.value(); }, r);
      EXPECT_EQ(static_cast<std::size_t>(value), r.index());
    }
  });
}

// ---- map_concurrently ----------------------------------------------------------------------------------------------

class MapConcurrently : public runtime_test::leak_checked {};

TEST_P(MapConcurrently, ResultsAreInTheOrderOfTheRange) {
  run([] {
    std::vector<int> numbers(500);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int>(i);
    const std::vector<std::string> texts = coir::map_concurrently(numbers, 7, [](int n) {
      if (n % 3 == 0) coir::yield();
      return std::to_string(n);
    });
    ASSERT_EQ(texts.size(), numbers.size());
    for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(texts[i], std::to_string(i));
  });
}

TEST_P(MapConcurrently, RunsAsManyAtOnceAsTheLimitSaysAndNoMore) {
  run([] {
    for (const int limit : {1, 3, 16}) {
      std::atomic<int> running = 0;
      std::atomic<int> most = 0;
      const auto go_on = coir::make_chan<void>();
      coir::task<void> all = coir::spawn([&] {
        coir::map_concurrently(numbers_below(40), static_cast<std::size_t>(limit), [&](int) {
          const int now = ++running;
          int seen = most;
          while (seen < now && !most.compare_exchange_weak(seen, now)) {
          }
          go_on.recv();
          --running;
        });
      });
      until([&] { return running == limit; });  // that many really run at once
      until_blocked(all);
      EXPECT_EQ(running, limit);
      go_on.close();
      all.get();
      EXPECT_EQ(most, limit);
    }
  });
}

TEST_P(MapConcurrently, ResultsNeedNotBeCopyableOrDefaultConstructible) {
  struct result {
    explicit result(int n) : owned(std::make_unique<int>(n)) {}
    std::unique_ptr<int> owned;
  };
  run([] {
    const std::vector<result> r = coir::map_concurrently(std::vector{1, 2, 3}, 2, [](int n) { return result(n); });
    EXPECT_EQ(*r[2].owned, 3);
  });
}

TEST_P(MapConcurrently, ElementsMayBeChangedInPlaceMovedOutOrTakenFromProxies) {
  run([] {
    std::vector<int> numbers{1, 2, 3};
    coir::map_concurrently(numbers, 2, [](int& n) { n *= 10; });
    EXPECT_EQ(numbers, (std::vector{10, 20, 30}));

    const std::vector<bool> flags{true, false, true};
    EXPECT_EQ(coir::map_concurrently(flags, 2, [](bool b) { return !b; }), (std::vector<bool>{false, true, false}));

    const made strings([](int n) { return std::to_string(n + 1); }, 3);
    EXPECT_EQ(coir::map_concurrently(strings, 2, [](std::string&& s) { return s + "!"; }),
              (std::vector<std::string>{"1!", "2!", "3!"}));

    std::list<std::string> list{"a", "b"};
    const auto addresses = coir::map_concurrently(list, 1, [](const std::string& s) { return &s; });
    EXPECT_EQ(addresses[0], &list.front());
  });
}

TEST_P(MapConcurrently, AnInputRangesElementsAreTakenAlong) {
  run([] {
    std::istringstream text("the quick brown fox");
    struct words {
      std::istream_iterator<std::string> first;
      std::istream_iterator<std::string> begin() const { return first; }
      std::istream_iterator<std::string> end() const { return {}; }
    };
    const auto lengths =
        coir::map_concurrently(words{std::istream_iterator<std::string>(text)}, 3, [](std::string word) {
          coir::yield();
          return word.size();
        });
    EXPECT_EQ(lengths, (std::vector<std::size_t>{3, 5, 5, 3}));
  });
}

TEST_P(MapConcurrently, AChannelIsARange) {
  run([] {
    const auto numbers = coir::make_chan<int>();
    coir::go([numbers] {
      for (int i = 0; i < 20; ++i) numbers.send(i);
      numbers.close();
    });
    const std::vector<int> squares = coir::map_concurrently(numbers, 4, [](int n) { return n * n; });
    ASSERT_EQ(squares.size(), 20U);
    EXPECT_EQ(squares[19], 361);
  });
}

TEST_P(MapConcurrently, ACallThatThrowsCancelledItselfFails) {
  run([] {
    stuck others;
    EXPECT_THROW(coir::map_concurrently(numbers_below(3), 3,
                                        [&](int n) {
                                          if (n != 2) others();
                                          others.until_entered(2);
                                          throw coir::cancelled();
                                        }),
                 coir::task_cancelled);
    EXPECT_EQ(others.unwound(), 2);
    EXPECT_NO_THROW(coir::sleep_for(1us));  // the caller is not cancelled
  });
}

TEST_P(MapConcurrently, ADeadlockOfItsCallsIsNoReturn) {
  std::atomic<int> begun{0};
  EXPECT_THROW(run([&] {
                 coir::map_concurrently(numbers_below(10), 3, [&](int) {
                   ++begun;
                   coir::make_chan<int>().recv();
                 });
                 ADD_FAILURE() << "it returned";
               }),
               coir::deadlock);
  EXPECT_EQ(begun, 3) << "while it was unwound";
}

TEST_P(MapConcurrently, OfAnEmptyRangeIsEmpty) {
  run([] { EXPECT_TRUE(coir::map_concurrently(std::vector<int>(), 3, [](int n) { return n; }).empty()); });
}

TEST_P(MapConcurrently, AVoidFunctionReturnsNothing) {
  static_assert(std::is_void_v<decltype(coir::map_concurrently(std::vector<int>(), 1, [](int) {}))>);
}

TEST_P(MapConcurrently, ALimitOfZeroIsRefused) {
  run([] {
    expect_throw_message<std::invalid_argument>([] { coir::map_concurrently(std::vector{1}, 0, [](int) {}); },
                                                "limit is 0");
  });
}

TEST_P(MapConcurrently, TheLimitMayBeLargerThanAnything) {
  run([] {
    EXPECT_EQ(coir::map_concurrently(std::vector{1, 2}, SIZE_MAX, [](int n) { return n; }), (std::vector{1, 2}));
  });
}

TEST_P(MapConcurrently, TheFirstFailureCancelsTheRestAndEndsTheWalkThroughTheRange) {
  run([] {
    stuck others;
    std::atomic<int> called = 0;
    expect_throw_message<failure>(
        [&] {
          coir::map_concurrently(made(&same), 3, [&](int n) {  // which has no end
            ++called;
            if (n < 2) return others();
            others.until_entered(2);
            throw failure("the third");
          });
        },
        "the third");
    EXPECT_EQ(called, 3);
    EXPECT_EQ(others.unwound(), 2);
  });
}

TEST_P(MapConcurrently, AFailureEndsAWalkThatBlocksInTheRange) {
  run([] {
    const auto numbers = coir::make_chan<int>(1);
    numbers.send(1);  // and never another
    expect_throw_message<failure>([&] { coir::map_concurrently(numbers, 3, [](int) { throw failure("at once"); }); },
                                  "at once");
    EXPECT_NO_THROW(coir::sleep_for(1us));  // nothing of it is left
  });
}

TEST_P(MapConcurrently, WhatTheRangeThrowsIsAFailure) {
  run([] {
    stuck others;
    const made range(
        [&](int n) {
          if (n == 2) {
            others.until_entered(2);
            throw failure("the range");
          }
          return n;
        },
        10);
    expect_throw_message<failure>([&] { coir::map_concurrently(range, 5, [&](int) { others(); }); }, "the range");
    EXPECT_EQ(others.unwound(), 2);
  });
}

TEST_P(MapConcurrently, ACancelledCallerCancelsItsCalls) {
  run([] {
    stuck all;
    coir::task<void> caller = coir::spawn([&] { coir::map_concurrently(numbers_below(100), 4, [&](int) { all(); }); });
    all.until_entered(4);
    until_blocked(caller);
    caller.request_stop();
    caller.wait();
    EXPECT_EQ(all.unwound(), 4);
  });
}

TEST_P(MapConcurrently, ACancelledCallerStopsThoughItNeverBlocks) {
  run([] {
    coir::task<void> caller = coir::spawn([&] { coir::map_concurrently(made(&same), 1'000, [&](int) {}); });
    caller.request_stop();
    caller.wait();
  });
}

TEST_P(MapConcurrently, RandomFailuresLeaveNothing) {
  run([] {
    for (int round = 0; round < scaled(500); ++round) {
      const int fails = round % 37;
      std::atomic<int> alive = 0;
      try {
        const std::vector<counted> r =
            coir::map_concurrently(numbers_below(30), static_cast<std::size_t>(round % 5 + 1), [&](int n) {
              ++alive;
              if (n % 4 == 0) coir::yield();
              --alive;
              if (n == fails) throw failure("chosen");
              return counted(n);
            });
        EXPECT_GE(fails, 30);
        EXPECT_EQ(r.size(), 30U);
      } catch (const failure&) {
        EXPECT_LT(fails, 30);
      }
      EXPECT_EQ(alive, 0);
      EXPECT_EQ(counted::live(), 0);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, Concurrently, coir_test::processors, coir_test::processors_name);
INSTANTIATE_TEST_SUITE_P(Processors, Race, coir_test::processors, coir_test::processors_name);
INSTANTIATE_TEST_SUITE_P(Processors, MapConcurrently, coir_test::processors, coir_test::processors_name);

}  // namespace
