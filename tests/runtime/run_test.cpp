// coir::run: what it returns and throws, which options it refuses, where its number of processors comes from.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "base/cpu_count.hpp"
#include "counted.hpp"
#include "gate.hpp"

namespace {

using coir_test::expect_throw_message;
using runtime_test::counted;
using runtime_test::gate;
using namespace std::chrono_literals;

class Run : public runtime_test::leak_checked {};

TEST_P(Run, ReturnsWhatMainReturns) {
  EXPECT_EQ(run([] { return 42; }), 42);
}

TEST_P(Run, ReturnsAReferenceToTheVeryObject) {
  int object = 0;
  int& result = coir::run(opts(), [&]() -> int& { return object; });
  EXPECT_EQ(&result, &object);
}

TEST_P(Run, RunsAFunctionThatReturnsNothing) {
  bool ran = false;
  static_assert(std::is_void_v<decltype(run([&] { ran = true; }))>);
  run([&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST_P(Run, ReturnsAMoveOnlyValue) {
  const std::unique_ptr<int> result = run([] { return std::make_unique<int>(7); });
  EXPECT_EQ(*result, 7);
}

TEST_P(Run, TakesAMoveOnlyFunction) {
  EXPECT_EQ(run([p = std::make_unique<int>(8)] { return *p; }), 8);
}

TEST_P(Run, TakesAFunctionByReferenceAndLeavesItWhereItIs) {
  struct function {
    int calls = 0;
    int operator()() { return ++calls; }
  } f;
  EXPECT_EQ(run(f), 1);
  EXPECT_EQ(run(f), 2);
  EXPECT_EQ(f.calls, 2);
}

TEST_P(Run, DestroysTheResultOnce) {
  {
    const counted result = run([] { return counted(5); });
    EXPECT_EQ(result.value(), 5);
    EXPECT_EQ(counted::live(), 1);
  }
  EXPECT_EQ(counted::live(), 0);
}

TEST_P(Run, RethrowsWhatMainThrows) {
  struct strange {
    int value;
  };
  try {
    run([] { throw strange{3}; });
    ADD_FAILURE() << "threw nothing";
  } catch (const strange& s) {
    EXPECT_EQ(s.value, 3);
  }
  expect_throw_message<std::runtime_error>([&] { run([]() -> int { throw std::runtime_error("of main"); }); },
                                           "of main");
}

TEST_P(Run, InsideAFiberIsALogicError) {
  run([&] {
    expect_throw_message<std::logic_error>([] { coir::run([] {}); }, "run");
    expect_throw_message<std::logic_error>([] { coir::runtime::current().run([] {}); }, "run");
    expect_throw_message<std::logic_error>([] { coir::runtime::current().wait(); }, "wait");
  });
}

TEST_P(Run, IsOnAFiberOfItsOwn) {
  EXPECT_FALSE(coir::this_fiber::is_fiber());
  EXPECT_TRUE(run([] { return coir::this_fiber::is_fiber(); }));
  EXPECT_FALSE(coir::this_fiber::is_fiber());
}

TEST_P(Run, GivesTheProcessorsThatItWasAskedFor) {
  EXPECT_EQ(run([] { return coir::runtime::current().processors(); }), GetParam());
}

TEST_P(Run, CanBeRepeated) {
  for (int i = 0; i < coir_test::scaled(500); ++i)
    ASSERT_EQ(run([i] { return coir::spawn([i] { return i; }).get(); }), i);
}

TEST_P(Run, SeesWhatItsThreadWroteAndTheThreadSeesWhatItWrote) {
  int plain = 1;
  run([&] { plain += 1; });
  plain += 1;
  EXPECT_EQ(plain, 3);
}

TEST_P(Run, TheThreadSeesWhatEveryFiberWrote) {
  std::vector<int> written(100, 0);
  run([&] {
    for (int& each : written) coir::go([&each] { each = 1; });
  });
  for (const int each : written) EXPECT_EQ(each, 1);
}

INSTANTIATE_TEST_SUITE_P(Processors, Run, coir_test::processors, coir_test::processors_name);

// ---- options -------------------------------------------------------------------------------------------------------

TEST(Options, TooManyProcessorsAreRefused) {
  coir::options o;
  o.processors = 1025;
  expect_throw_message<std::invalid_argument>([&] { coir::run(o, [] {}); }, "1025");
}

TEST(Options, AStackThatIsTooSmallOrTooLargeIsRefused) {
  coir::options o;
  o.stack_size = 16 * 1024 - 1;
  expect_throw_message<std::invalid_argument>([&] { coir::run(o, [] {}); }, "16383");
  o.stack_size = 0;
  expect_throw_message<std::invalid_argument>([&] { coir::run(o, [] {}); }, "stack_size");
  o.stack_size = (std::size_t{1} << 30) + 1;
  expect_throw_message<std::invalid_argument>([&] { coir::run(o, [] {}); }, "stack_size");
}

TEST(Options, ATimeSliceThatIsNotPositiveIsRefused) {
  coir::options o;
  o.time_slice = 0ns;
  expect_throw_message<std::invalid_argument>([&] { coir::run(o, [] {}); }, "time_slice");
  o.time_slice = -1ms;
  expect_throw_message<std::invalid_argument>([&] { coir::run(o, [] {}); }, "time_slice");
}

TEST(Options, AStackThatIsNoWholeNumberOfPagesIsRoundedUp) {
  coir::options o;
  o.processors = 1;
  o.stack_size = 64 * 1024 + 1;
  EXPECT_EQ(coir::run(o, [] { return 1; }), 1);
}

TEST(Options, TheSmallestStackRunsAFiber) {
  if (coir_test::address_sanitizer || coir_test::thread_sanitizer) GTEST_SKIP() << "instrumented frames need more";
  coir::options o;
  o.processors = 1;
  o.stack_size = 16 * 1024;
  EXPECT_EQ(coir::run(o, [] { return coir::spawn([] { return 1; }).get(); }), 1);
}

// 200 KB of the default 256 KiB can be used.
TEST(Options, TheDefaultStackHoldsWhatItsSizePromises) {
  const auto sum = coir::run([] {
    volatile char large[200'000];
    for (std::size_t i = 0; i < sizeof(large); i += 512) large[i] = 1;
    int n = 0;
    for (std::size_t i = 0; i < sizeof(large); i += 512) n += large[i];
    return n;
  });
  EXPECT_EQ(sum, (200'000 + 511) / 512);
}

TEST(Options, ALargeStackCanBeUsedToItsEnd) {
  coir::options o;
  o.processors = 2;
  o.stack_size = 8 << 20;
  EXPECT_EQ(coir::run(o,
                      [] {
                        volatile char large[7 << 20];
                        large[0] = 1;
                        large[sizeof(large) - 1] = 2;
                        return large[0] + large[sizeof(large) - 1];
                      }),
            3);
}

// ---- COIR_PROCS ----------------------------------------------------------------------------------------------------

/// Sets an environment variable, and puts back what it was.
class environment {
 public:
  environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    if (value != nullptr)
      ::setenv(name, value, 1);
    else
      ::unsetenv(name);
  }
  ~environment() {
    if (old_)
      ::setenv(name_, old_->c_str(), 1);
    else
      ::unsetenv(name_);
  }
  environment(const environment&) = delete;
  environment& operator=(const environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

unsigned processors_by_default() {
  return coir::run([] { return coir::runtime::current().processors(); });
}

TEST(CoirProcs, SaysHowManyProcessorsThereAre) {
  const environment set("COIR_PROCS", "3");
  EXPECT_EQ(processors_by_default(), 3U);
}

TEST(CoirProcs, YieldsToTheOption) {
  const environment set("COIR_PROCS", "3");
  coir::options o;
  o.processors = 2;
  EXPECT_EQ(coir::run(o, [] { return coir::runtime::current().processors(); }), 2U);
}

TEST(CoirProcs, UnsetOrEmptyMeansTheUsableCpus) {
  for (const char* const value : {static_cast<const char*>(nullptr), ""}) {
    const environment set("COIR_PROCS", value);
    EXPECT_EQ(processors_by_default(), std::min(coir::detail::usable_cpus(), 1024U));
  }
}

TEST(CoirProcs, MalformedIsRefusedByName) {
  for (const char* const value : {"0", "-1", "4x", "x", "1.5", "1025", "99999999999999999999", "two", "4 "}) {
    SCOPED_TRACE(value);
    const environment set("COIR_PROCS", value);
    expect_throw_message<std::invalid_argument>([] { coir::run([] {}); }, "COIR_PROCS");
    expect_throw_message<std::invalid_argument>([] { coir::run([] {}); }, value);
  }
}

// ---- what happens when main returns --------------------------------------------------------------------------------

class MainReturn : public runtime_test::leak_checked {
 protected:
  template <class F>
  auto run_cancelling(F&& f) const {
    coir::options o = opts();
    o.when_main_returns = coir::on_main_return::cancel;
    return coir::run(o, std::forward<F>(f));
  }
};

TEST_P(MainReturn, DrainWaitsForEveryFiber) {
  std::atomic<int> ended{0};
  const int result = run([&] {
    for (int i = 0; i < 50; ++i) {
      coir::go([&] {
        coir::yield();
        coir::go([&] {
          coir::sleep_for(1ms);
          ++ended;
        });
        ++ended;
      });
    }
    return 5;
  });
  EXPECT_EQ(result, 5);
  EXPECT_EQ(ended, 100);
}

TEST_P(MainReturn, CancelUnwindsFibersThatBlock) {
  gate never, all_there;
  std::atomic<int> waiting{0};
  const int result = run_cancelling([&] {
    for (int i = 0; i < 20; ++i) {
      coir::go([&, held = counted()] {
        const counted local;
        if (++waiting == 20) all_there.open();
        never.pass();
        ADD_FAILURE() << "went through a gate that nobody opened";
      });
    }
    all_there.pass();
    return 6;
  });
  EXPECT_EQ(result, 6);
  EXPECT_EQ(waiting, 20);
}

TEST_P(MainReturn, CancelReachesFibersThatHaveNotStarted) {
  std::atomic<int> started{0}, blocked{0};
  run_cancelling([&] {
    for (int i = 0; i < 100; ++i) {
      coir::go([&, held = counted()] {
        ++started;
        coir::sleep_for(std::chrono::hours(1));
        ++blocked;
      });
    }
  });
  EXPECT_EQ(started, 100);  // they run, and find themselves cancelled
  EXPECT_EQ(blocked, 0);
}

TEST_P(MainReturn, CancelReachesFibersThatAreStartedAfterIt) {
  std::atomic<int> ended{0};
  run_cancelling([&] {
    coir::go([&] {
      const std::stop_token stop = coir::this_fiber::stop_token();
      coir_test::until([&] { return stop.stop_requested(); });
      coir::go([&] {
        EXPECT_THROW(coir::sleep_for(std::chrono::hours(1)), coir::cancelled);
        ++ended;
      });
    });
  });
  EXPECT_EQ(ended, 1);
}

TEST_P(MainReturn, CancelLetsAFiberFinishWhatDoesNotBlock) {
  bool finished = false;
  gate begun;
  run_cancelling([&] {
    coir::go([&] {
      begun.open();
      for (int i = 0; i < 1000; ++i) coir::yield();
      finished = true;
    });
    begun.pass();
  });
  EXPECT_TRUE(finished);
}

TEST_P(MainReturn, CancelLetsCleanUpCodeBlock) {
  bool cleaned = false;
  gate begun, never;
  run_cancelling([&] {
    coir::go([&] {
      struct cleaner {
        bool& cleaned;
        ~cleaner() {
          const coir::uncancellable guard;
          coir::sleep_for(1ms);
          cleaned = true;
        }
      } at_end{cleaned};
      begun.open();
      never.pass();
    });
    begun.pass();
  });
  EXPECT_TRUE(cleaned);
}

TEST_P(MainReturn, AnExceptionCancelsTheRestEvenWhenDraining) {
  std::atomic<bool> unwound{false};
  gate begun;
  expect_throw_message<std::runtime_error>(
      [&] {
        run([&] {
          coir::go([&] {
            struct at_end {
              std::atomic<bool>& flag;
              ~at_end() { flag = true; }
            } sets{unwound};
            begun.open();
            coir::sleep_for(std::chrono::hours(1));
          });
          begun.pass();
          throw std::runtime_error("main failed");
        });
      },
      "main failed");
  EXPECT_TRUE(unwound);
}

INSTANTIATE_TEST_SUITE_P(Processors, MainReturn, coir_test::processors, coir_test::processors_name);

}  // namespace
