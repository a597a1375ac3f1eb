// An exception that nobody takes ends the process where it was thrown: the report, the terminate handler and so a core
// file see the frames that have thrown it, and none of their destructors has run. `cancelled` unwinds as ever.
#include <execinfo.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <ostream>
#include <stdexcept>
#include <string>

#include <coir/async.hpp>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using runtime_test::counted;
using runtime_test::gate;

#if defined(__x86_64__)

class Uncaught : public runtime_test::leak_checked {
 protected:
  void SetUp() override {
    leak_checked::SetUp();
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

// ---- in the process that is to end
// -----------------------------------------------------------------------------------

void* thrower_returns_to = nullptr;
std::atomic<int> destroyed{0};
std::string expected_what;

struct note_destruction {
  ~note_destruction() { ++destroyed; }
};

constexpr int whole = 42;

/// Ends the process with `whole` if std::terminate() is called on top of the frames that have thrown.
[[noreturn]] void look_at_the_stack() {
  void* frames[64];
  void** const end = frames + ::backtrace(frames, 64);
  const bool seen = std::find(frames, end, thrower_returns_to) != end;
  std::string what = "not of C++";
  if (const std::exception_ptr error = std::current_exception()) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      what = e.what();
    } catch (int n) {
      what = std::to_string(n);
    } catch (...) {
      what = "?";
    }
  }
  std::fprintf(stderr, "the thrower is %s, destroyed: %d, the exception is %s, uncaught are %d\n",
               seen ? "seen" : "not seen", destroyed.load(), what.c_str(), std::uncaught_exceptions());
  std::_Exit(seen && destroyed == 0 && what == expected_what && std::uncaught_exceptions() == 0 ? whole : 1);
}

template <class E>
[[gnu::noinline]] void throw_here(const E& e) {
  thrower_returns_to = __builtin_return_address(0);
  const note_destruction local;
  std::fprintf(stderr, "it returns to [%p]\n", thrower_returns_to);
  std::fflush(stderr);
  throw e;
}

template <class E>
[[gnu::noinline]] void call_thrower(const E& e) {
  const note_destruction local;
  throw_here(e);
  asm volatile("");  // no tail call
}

void fail() { call_thrower(std::runtime_error("out of luck")); }

void watch(const char* what) {
  expected_what = what;
  std::set_terminate(&look_at_the_stack);
}

#define EXPECT_ENDS_WHOLE(what, ...) \
  EXPECT_EXIT(                       \
      {                              \
        watch(what);                 \
        __VA_ARGS__;                 \
        std::_Exit(2);               \
      },                             \
      testing::ExitedWithCode(whole), "an exception left a fiber: .*")

// ---- what is reported
// ------------------------------------------------------------------------------------------------

/// A report that says what, and by a line of its backtrace to where the thrower returns.
class names_the_thrower final : public testing::MatcherInterface<const std::string&> {
 public:
  bool MatchAndExplain(const std::string& report, testing::MatchResultListener*) const override {
    const std::size_t said = report.find("it returns to ");
    if (said == report.npos) return false;
    const std::string address = report.substr(report.find('[', said), report.find(']', said) - report.find('[', said));
    const std::size_t thrown_in = report.find("coir: thrown in\n");
    return report.find("an exception left a fiber: std::runtime_error: out of luck\ncoir: in fiber ") < thrown_in &&
           report.find("uncaught_test.cpp:") < thrown_in && thrown_in != report.npos &&
           report.find(address, thrown_in) != report.npos;
  }
  void DescribeTo(std::ostream* out) const override { *out << "has the backtrace of the throw"; }
};

TEST_P(Uncaught, TheReportHasTheBacktraceOfTheThrow) {
  EXPECT_EXIT(run([] { coir::go([] { fail(); }); }), testing::KilledBySignal(SIGABRT),
              testing::Matcher<const std::string&>(new names_the_thrower));
}

TEST_P(Uncaught, EndsTheProcessBeforeTheStackIsUnwound) {
  EXPECT_ENDS_WHOLE("out of luck", run([] { coir::go([] { fail(); }); }));
}

TEST_P(Uncaught, AfterTheFiberHasBlocked) {
  EXPECT_ENDS_WHOLE("out of luck", run([] {
                      gate door;
                      coir::go([&] {
                        const note_destruction local;
                        door.pass();
                        fail();
                      });
                      coir::yield();
                      door.open();
                      gate().pass();
                    }));
}

TEST_P(Uncaught, OnAStackThatOthersHaveUsed) {
  EXPECT_ENDS_WHOLE("out of luck", run([] {
                      for (int i = 0; i < 100; ++i) coir::spawn([] {}).get();
                      for (int i = 0; i < 10; ++i) coir::go([] { throw coir::cancelled(); });
                      coir::go([] { fail(); });
                    }));
}

TEST_P(Uncaught, OnAStackOfItsOwnSize) {
  EXPECT_ENDS_WHOLE("out of luck", run([] {
                      coir::spawn_options o;
                      o.stack_size = 1024 * 1024;
                      coir::go(o, [] { fail(); });
                    }));
}

TEST_P(Uncaught, StartedByAForeignThread) {
  EXPECT_ENDS_WHOLE("out of luck", {
    coir::runtime rt{opts()};
    rt.go([] { fail(); });
    rt.wait();
  });
}

TEST_P(Uncaught, OfATypeThatIsNoStdException) {
  EXPECT_ENDS_WHOLE("5", run([] { coir::go([] { call_thrower(5); }); }));
}

TEST_P(Uncaught, InABlockingSection) {
  EXPECT_ENDS_WHOLE("out of luck", run([] { coir::go([] { coir::blocking([] { fail(); }); }); }));
}

TEST_P(Uncaught, WhileAnotherOneIsBeingHandled) {
  EXPECT_ENDS_WHOLE("out of luck", run([] {
                      coir::go([] {
                        try {
                          throw 1;
                        } catch (int) {
                          coir::yield();
                          fail();
                        }
                      });
                    }));
}

TEST_P(Uncaught, ThrownAgain) {
  EXPECT_ENDS_WHOLE("7", run([] {
                      coir::go([] {
                        try {
                          throw 7;
                        } catch (int) {
                          thrower_returns_to = nullptr;
                          [] {
                            thrower_returns_to = __builtin_extract_return_addr(__builtin_return_address(0));
                            const note_destruction local;
                            throw;
                          }();
                        }
                      });
                    }));
}

TEST_P(Uncaught, AnExceptionPtrThatIsThrown) {
  EXPECT_ENDS_WHOLE("out of luck", run([] {
                      coir::go([] {
                        const auto error = std::make_exception_ptr(std::runtime_error("out of luck"));
                        [](const std::exception_ptr& e) __attribute__((noinline)) {
                          thrower_returns_to = __builtin_return_address(0);
                          const note_destruction local;
                          std::rethrow_exception(e);
                        }(error);
                      });
                    }));
}

// Where a function says that nothing leaves it, C++ ends the process as it always does.
TEST_P(Uncaught, ThatMeetsANoexceptFunctionNeverLeavesTheFiber) {
  EXPECT_EXIT(
      {
        std::set_terminate([] {
          std::fprintf(stderr, "terminated\n");
          std::_Exit(17);
        });
        run([] { coir::go([]() noexcept { fail(); }); });
      },
      testing::ExitedWithCode(17), "returns to [^\n]*\nterminated");
}

TEST_P(Uncaught, AForcedUnwindingIsReported) {
  if (coir_test::thread_sanitizer) GTEST_SKIP() << "its pthread_exit() fails on any stack but the thread's";
  EXPECT_EXIT(run([] { coir::go([] { ::pthread_exit(nullptr); }); }), testing::KilledBySignal(SIGABRT),
              "left a fiber: .*pthread_exit(.|\n)*spawned at .*uncaught_test.cpp");
}

// ---- what unwinds as ever
// --------------------------------------------------------------------------------------------

TEST_P(Uncaught, CancelledRunsTheDestructors) {
  gate never;
  std::atomic<int> blocked{0};
  coir::runtime rt{opts()};
  for (int i = 0; i < 20; ++i) {
    rt.go([&, c = counted()] {
      const counted outer;
      [&] {
        const counted inner;
        ++blocked;
        never.pass();
      }();
    });
  }
  coir_test::until([&] { return blocked == 20; });
  rt.cancel();
  rt.wait();
  EXPECT_EQ(counted::live(), 0);
}

TEST_P(Uncaught, CancelledMayBeCopiedAndThrownAgain) {
  std::atomic<int> ended{0};
  run([&] {
    struct at_end {
      std::atomic<int>& n;
      ~at_end() { ++n; }
    };
    coir::go([&] {
      const at_end end{ended};
      try {
        throw coir::cancelled();
      } catch (const coir::cancelled& c) {
        throw coir::cancelled(c);
      }
    });
    coir::go([&] {
      const at_end end{ended};
      try {
        throw coir::cancelled();
      } catch (...) {
        coir::yield();
        throw;
      }
    });
    coir::go([&] {
      const at_end end{ended};
      std::exception_ptr kept;
      try {
        throw coir::cancelled();
      } catch (...) {
        kept = std::current_exception();
      }
      std::rethrow_exception(kept);
    });
    coir::go([&] {
      const at_end end{ended};
      struct mine : coir::cancelled {};
      throw mine();
    });
  });
  EXPECT_EQ(ended, 4);
}

TEST_P(Uncaught, ATasksExceptionUnwindsAndGoesToWhoJoins) {
  run([] {
    coir::task<void> t = coir::spawn([c = counted()] {
      const counted local;
      throw std::runtime_error("for the joiner");
    });
    coir_test::expect_throw_message<std::runtime_error>([&] { t.get(); }, "for the joiner");
    coir::spawn_options o;
    o.stack_size = 1024 * 1024;
    coir::task<void> sized = coir::spawn(o, [c = counted()] { throw 3; });
    EXPECT_THROW(sized.get(), int);
    const auto throws = []() -> coir::async<void> {
      co_await coir::async_sleep(std::chrono::microseconds(1));
      throw 4;
    };
    coir::task<void> async = coir::spawn(throws);
    EXPECT_THROW(async.get(), int);
  });
  EXPECT_EQ(counted::live(), 0);
}

INSTANTIATE_TEST_SUITE_P(Processors, Uncaught, coir_test::processors, coir_test::processors_name);

#endif

}  // namespace
