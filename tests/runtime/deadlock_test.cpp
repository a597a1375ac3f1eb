// Deadlock: reported with every blocked fiber, which are then unwound.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <coir/detail/alarm.hpp>
#include <coir/detail/stop_hook.hpp>
#include <coir/this_fiber.hpp>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using runtime_test::counted;
using runtime_test::gate;
using namespace std::chrono_literals;

class Deadlock : public runtime_test::leak_checked {
 protected:
  void SetUp() override {
    leak_checked::SetUp();
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

/// What the deadlock that f ends with says; empty, and a failure, if there is none.
template <class F>
std::string report_of(F&& f) {
  try {
    f();
  } catch (const coir::deadlock& d) {
    return d.what();
  }
  ADD_FAILURE() << "no deadlock";
  return {};
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_P(Deadlock, NamesEachBlockedFiberItsNameWhatItWaitsOnAndWhereItWasSpawned) {
  gate never;
  int line = 0;
  coir::fiber_id first, second;
  const std::string report = report_of([&] {
    run([&] {
      coir::this_fiber::set_name("the main one");
      coir::task<void> a = coir::spawn([&] {
        first = coir::this_fiber::get_id();
        coir::this_fiber::set_name("a named one");
        never.pass();
      });
      line = __LINE__ + 1;
      coir::go([&] {
        second = coir::this_fiber::get_id();
        never.pass();
      });
      a.get();
    });
  });
  EXPECT_EQ(report.find("all fibers are asleep - deadlock!"), 0U) << report;
  EXPECT_TRUE(contains(report, "fiber " + std::to_string(first.number()) + " \"a named one\"")) << report;
  EXPECT_TRUE(contains(report, "fiber " + std::to_string(second.number()) + ",")) << report;
  EXPECT_TRUE(contains(report, "\"the main one\"")) << report;
  EXPECT_TRUE(contains(report, "deadlock_test.cpp:" + std::to_string(line))) << report;
  EXPECT_TRUE(contains(report, ": gate 0x")) << report;
  EXPECT_TRUE(contains(report, "task join")) << report;
  // A line each, and no other.
  EXPECT_EQ(std::count(report.begin(), report.end(), '\n'), 3) << report;
}

TEST_P(Deadlock, ListsABlockedFiberThatIsNotMain) {
  gate never;
  const std::string report = report_of([&] { run([&] { coir::go([&] { never.pass(); }); }); });
  EXPECT_EQ(std::count(report.begin(), report.end(), '\n'), 1) << report;
}

TEST_P(Deadlock, UnwindsTheFibersSoThatDestructorsRun) {
  gate never;
  std::atomic<int> unwound{0};
  static_cast<void>(report_of([&] {
    run([&] {
      struct at_end {
        std::atomic<int>& count;
        ~at_end() { ++count; }
      };
      for (int i = 0; i < 20; ++i) {
        coir::go([&, c = counted()] {
          const at_end counts{unwound};
          const counted local;
          never.pass();
        });
      }
      const at_end counts{unwound};
      never.pass();
    });
  }));
  EXPECT_EQ(unwound, 21);
  EXPECT_EQ(counted::live(), 0);
  EXPECT_FALSE(never.awaited());
}

TEST_P(Deadlock, OfMainAloneIsThrownByRun) {
  gate never;
  static_cast<void>(report_of([&] {
    run([&]() -> int {
      never.pass();
      return 1;
    });
  }));
}

TEST_P(Deadlock, AFiberThatJoinsItselfIsOne) {
  const std::string report = report_of([&] {
    run([] {
      gate handed;
      coir::task<void> t;
      t = coir::spawn([&] {
        handed.pass();
        t.wait();
      });
      handed.open();
      t.wait();
    });
  });
  EXPECT_TRUE(contains(report, "task join")) << report;
}

TEST_P(Deadlock, ACircleOfJoinsIsOne) {
  coir::task<void> a, b;
  gate handed;
  static_cast<void>(report_of([&] {
    run([&] {
      a = coir::spawn([&] { handed.pass(), b.wait(); });
      b = coir::spawn([&] { handed.pass(), a.wait(); });
      handed.open();
    });
  }));
  // The first to unwind has ended, so that the other's join may be over in time; but not both.
  int unwound = 0;
  for (coir::task<void>* t : {&a, &b}) {
    try {
      t->get();
    } catch (const coir::task_cancelled&) {
      ++unwound;
    }
  }
  EXPECT_GE(unwound, 1);
}

TEST_P(Deadlock, TasksAreJoinedInDestructorsWhileItUnwinds) {
  gate never;
  std::atomic<int> children_ended{0};
  static_cast<void>(report_of([&] {
    run([&] {
      std::vector<coir::task<void>> children;
      for (int i = 0; i < 10; ++i) {
        children.push_back(coir::spawn([&] {
          try {
            never.pass();
          } catch (const coir::cancelled&) {
            const coir::uncancellable guard;
            coir::sleep_for(1ms);
            ++children_ended;
            throw;
          }
        }));
      }
      never.pass();
    });
  }));
  EXPECT_EQ(children_ended, 10);
}

TEST_P(Deadlock, CleanUpCodeMayStartFibersAndBlockWhileItUnwinds) {
  gate never;
  int cleaned = 0;
  static_cast<void>(report_of([&] {
    run([&] {
      struct cleaner {
        int& count;
        ~cleaner() {
          const coir::uncancellable guard;
          count = coir::spawn([] {
                    coir::yield();
                    return 5;
                  }).get();
        }
      } cleans{cleaned};
      never.pass();
    });
  }));
  EXPECT_EQ(cleaned, 5);
}

TEST_P(Deadlock, AFiberThatSwallowsTheCancellationEndsNormallyAndItIsReportedAllTheSame) {
  gate never;
  bool swallowed = false;
  static_cast<void>(report_of([&] {
    run([&] {
      try {
        never.pass();
      } catch (const coir::cancelled&) {
        swallowed = true;
      }
    });
  }));
  EXPECT_TRUE(swallowed);
}

TEST_P(Deadlock, FibersThatBlockAgainAreUnwoundAgain) {
  gate never;
  int attempts = 0;
  static_cast<void>(report_of([&] {
    run([&] {
      for (;;) {
        try {
          never.pass();
        } catch (const coir::cancelled&) {
          if (++attempts == 3) throw;
        }
      }
    });
  }));
  EXPECT_EQ(attempts, 3);
}

/// Calls f when the fiber's stop is requested.
template <class F>
class on_stop_do {
 public:
  explicit on_stop_do(F f) { hook_.set(coir::this_fiber::stop_token(), std::move(f)); }

 private:
  coir::detail::stop_hook<F> hook_;
};

// ---- from the leaves -----------------------------------------------------------------------------------------------

/// Notes the depth of the fiber whose frame it is in when that is unwound.
struct note_at_end {
  std::mutex& lock;
  std::vector<int>& depths;
  int depth;
  ~note_at_end() {
    const std::lock_guard locked(lock);
    depths.push_back(depth);
  }
};

TEST_P(Deadlock, IsUnwoundFromTheLeaves) {
  gate never;
  std::mutex lock;
  std::vector<int> depths;
  static_cast<void>(report_of([&] {
    run([&] {
      const note_at_end main_ends{lock, depths, 0};
      for (int i = 0; i < 3; ++i) {
        coir::go([&] {
          const note_at_end ends{lock, depths, 1};
          for (int k = 0; k < 3; ++k) {
            // Whoever stands between may have ended.
            coir::go([&] {
              coir::go([&] {
                const note_at_end leaf_ends{lock, depths, 3};
                never.pass();
              });
            });
          }
          never.pass();
        });
      }
      never.pass();
    });
  }));
  EXPECT_EQ(depths, (std::vector<int>{3, 3, 3, 3, 3, 3, 3, 3, 3, 1, 1, 1, 0}));
}

TEST_P(Deadlock, AChainOfAnyLengthIsUnwound) {
  constexpr int length = 400;
  gate never;
  std::mutex lock;
  std::vector<int> depths;
  static_cast<void>(report_of([&] {
    run([&] {
      std::function<void(int)> link = [&](int depth) {
        const note_at_end ends{lock, depths, depth};
        if (depth != length) coir::go([&link, depth] { link(depth + 1); });
        never.pass();
      };
      link(0);
    });
  }));
  ASSERT_EQ(depths.size(), length + 1U);
  // Those at the end count as equally deep.
  constexpr std::size_t counted_depths = 255;
  for (std::size_t i = 0; i < counted_depths; ++i) EXPECT_EQ(depths[depths.size() - 1 - i], static_cast<int>(i));
}

TEST_P(Deadlock, WhoIsWokenByOneThatUnwindsGoesOnUntilItIsAboutToBlock) {
  gate never;
  bool went_on = false;
  bool blocked_again = false;
  static_cast<void>(report_of([&] {
    run([&] {
      gate opened;
      coir::go([&] {
        struct opener {
          gate& g;
          ~opener() { g.open(); }
        } const opens{opened};
        never.pass();
      });
      opened.pass();
      went_on = true;
      never.pass();
      blocked_again = true;
    });
  }));
  EXPECT_TRUE(went_on);
  EXPECT_FALSE(blocked_again);
}

TEST_P(Deadlock, TellsEveryStopTokenAlsoOfThoseThatMustNotBeDisturbed) {
  gate never;
  bool told = false;
  static_cast<void>(report_of([&] {
    run([&] {
      coir::task<void> t = coir::spawn([&] {
        gate opened;
        const on_stop_do opens([&] { opened.open(); });
        const coir::uncancellable guard;
        opened.pass();
        told = true;
      });
      never.pass();
    });
  }));
  EXPECT_TRUE(told);
}

TEST_P(Deadlock, StopTokensTellInTheSameOrder) {
  gate never;
  std::mutex lock;
  std::vector<int> depths;
  static_cast<void>(report_of([&] {
    run([&] {
      const note_at_end main_ends{lock, depths, 0};
      gate told;
      const on_stop_do tells([&] { told.open(); });
      coir::go([&] {
        const note_at_end ends{lock, depths, 1};
        never.pass();
      });
      told.pass();
    });
  }));
  EXPECT_EQ(depths, (std::vector<int>{1, 0}));
}

TEST_P(Deadlock, ASlowStopCallbackIsWaitedForByAllThreads) {
  coir::runtime rt{opts()};
  gate never, opened;
  std::atomic<bool> up{false};
  std::thread other([&] {
    coir_test::until([&] { return up.load(); });
    EXPECT_THROW(rt.wait(), coir::deadlock);
  });
  EXPECT_THROW(rt.run([&] {
    coir::task<void> t = coir::spawn([&] {
      const on_stop_do tells([&] {
        std::this_thread::sleep_for(50ms);
        opened.open();
      });
      const coir::uncancellable guard;
      opened.pass();
    });
    up = true;
    never.pass();
  }),
               coir::deadlock);
  other.join();
}

// What was certain at the first step need not be so at the next.
TEST_P(Deadlock, AThreadThatIsStartedWhileItUnwindsHoldsNobodyUp) {
  gate never;
  std::atomic<bool> end{false};
  std::thread started;
  static_cast<void>(report_of([&] {
    run([&] {
      coir::go([&] {
        struct starter {
          std::atomic<bool>& end;
          std::thread& started;
          ~starter() {
            started = std::thread([&e = end] { coir_test::until([&e] { return e.load(); }); });
          }
        } const starts{end, started};
        never.pass();
      });
      never.pass();
    });
  }));
  end = true;
  started.join();
}

TEST_P(Deadlock, AThreadThatRunsAFiberWhileItUnwindsMayLeaveToTheOthers) {
  gate never;
  coir::runtime rt{opts()};
  bool ended = false;
  EXPECT_THROW(rt.run([&] {
    struct at_end {
      bool& child_ended;
      ~at_end() { EXPECT_TRUE(child_ended); }
    } const last{ended};
    coir::go([&] {
      struct helped {
        coir::runtime& rt;
        bool& ended;
        ~helped() {
          std::thread([this] { rt.run([] {}); }).join();
          ended = true;
        }
      } const helps{rt, ended};
      never.pass();
    });
    never.pass();
  }),
               coir::deadlock);
}

TEST_P(Deadlock, ATimerThatIsSetWhileItUnwindsHoldsNobodyUpForLong) {
  gate never;
  coir::detail::alarm left;
  static_cast<void>(report_of([&] {
    run([&] {
      coir::go([&] {
        struct setter {
          coir::detail::alarm& left;
          ~setter() {
            left.arm(coir::detail::deadline_after(1h), [](void*, std::uint64_t) noexcept {}, nullptr);
          }
        } const sets{left};
        never.pass();
      });
      never.pass();
    });
  }));
}

TEST_P(Deadlock, AThreadWhoseMainFiberIsDoneDoesNotLeaveTheOthersBehind) {
  coir::runtime rt{opts()};
  gate never;
  coir::task<void> another = rt.spawn([&] { never.pass(); });
  bool went_on = false;
  rt.run([&] {
    gate opened;
    coir::go([&] {
      struct opener {
        gate& g;
        ~opener() { g.open(); }
      } const opens{opened};
      never.pass();
    });
    opened.pass();
    went_on = true;
  });
  EXPECT_TRUE(went_on);
  EXPECT_THROW(another.get(),
               coir::task_cancelled);  // by this thread, which is none of the runtime's: nobody else looks
  EXPECT_THROW(rt.wait(), coir::deadlock);
}

TEST_P(Deadlock, IsWrittenToStderrIfMainThrowsSomethingElseBecauseOfIt) {
  gate never;
  testing::internal::CaptureStderr();
  EXPECT_THROW(run([&] {
                 gate opened;
                 bool done = false;
                 coir::go([&] {
                   struct opener {
                     gate& g;
                     ~opener() { g.open(); }
                   } const opens{opened};
                   never.pass();
                   done = true;
                 });
                 opened.pass();
                 if (!done) throw std::logic_error("not done");
               }),
               std::logic_error);
  const std::string written = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(contains(written, "all fibers are asleep - deadlock!")) << written;
}

// ---- the explicit runtime ------------------------------------------------------------------------------------------

TEST_P(Deadlock, IsThrownByRunAndByWaitAndTheRuntimeGoesOn) {
  coir::runtime rt{opts()};
  gate never;
  EXPECT_THROW(rt.run([&] { never.pass(); }), coir::deadlock);
  EXPECT_THROW(rt.wait(), coir::deadlock);
  rt.wait();  // once for each
  EXPECT_EQ(rt.run([] { return coir::spawn([] { return 3; }).get(); }), 3);
  rt.go([&] { never.pass(); });
  EXPECT_THROW(rt.wait(), coir::deadlock);
  rt.wait();
}

TEST_P(Deadlock, ASecondOneHasAReportOfItsOwn) {
  coir::runtime rt{opts()};
  gate never;
  for (const std::string name : {"first", "second"}) {
    const std::string report = report_of([&] {
      rt.run([&] {
        coir::this_fiber::set_name(name);
        never.pass();
      });
    });
    EXPECT_TRUE(contains(report, name)) << report;
  }
  EXPECT_THROW(rt.wait(), coir::deadlock);
}

TEST_P(Deadlock, IsWrittenToStderrByTheDestructor) {
  gate never;
  testing::internal::CaptureStderr();
  {
    coir::runtime rt{opts()};
    rt.go([&, c = counted()] {
      coir::this_fiber::set_name("forgotten");
      never.pass();
    });
  }
  const std::string written = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(contains(written, "all fibers are asleep - deadlock!")) << written;
  EXPECT_TRUE(contains(written, "\"forgotten\"")) << written;
  EXPECT_TRUE(contains(written, "deadlock_test.cpp:")) << written;
}

TEST_P(Deadlock, RunReturnsItsResultThoughOthersAreBlockedForEver) {
  coir::runtime rt{opts()};
  gate never;
  rt.go([&] { never.pass(); });
  EXPECT_EQ(rt.run([] { return 1; }), 1);
  EXPECT_THROW(rt.wait(), coir::deadlock);
}

TEST_P(Deadlock, CanBeHadManyTimes) {
  for (int i = 0; i < coir_test::scaled(200); ++i) {
    gate never;
    ASSERT_THROW(run([&] {
                   coir::go([&, c = counted()] { never.pass(); });
                   never.pass();
                 }),
                 coir::deadlock);
  }
}

// Each of them looks for itself.
TEST_P(Deadlock, OneThatMustNotBeDisturbedMayWaitForOneOfAnotherRuntimeThatUnwinds) {
  for (int i = 0; i < coir_test::scaled(20); ++i) {
    gate never, opened;
    coir::runtime undisturbed{opts()}, unwound{opts()};
    undisturbed.go([&] {
      const coir::uncancellable guard;
      opened.pass();
    });
    unwound.go([&] {
      struct opener {
        gate& g;
        ~opener() { g.open(); }
      } const opens{opened};
      never.pass();
    });
    std::thread other([&] { EXPECT_THROW(unwound.wait(), coir::deadlock); });
    undisturbed.wait();
    other.join();
  }
}

// ---- what cannot be unwound ----------------------------------------------------------------------------------------

TEST_P(Deadlock, AFiberThatBlocksForEverInUncancellableEndsTheProcessWithAReport) {
  EXPECT_EXIT(coir::run(opts(),
                        [] {
                          gate never;
                          coir::this_fiber::set_name("stubborn");
                          const coir::uncancellable guard;
                          never.pass();
                        }),
              testing::KilledBySignal(SIGABRT),
              "coir: fatal: all fibers are asleep - deadlock.*fiber [0-9]+ \"stubborn\", spawned at "
              ".*deadlock_test.cpp:[0-9]+.*"
              "gate");
}

TEST_P(Deadlock, NobodyIsLeftToUnwindIfNoThreadWaitsForTheOtherRuntime) {
  EXPECT_EXIT(
      {
        gate never;
        coir::runtime unattended{opts()};
        coir::runtime stubborn{opts()};
        unattended.go([&] { never.pass(); });
        stubborn.go([&] {
          const coir::uncancellable guard;
          never.pass();
        });
        stubborn.wait();
      },
      testing::KilledBySignal(SIGABRT), "cannot be unwound");
}

INSTANTIATE_TEST_SUITE_P(Processors, Deadlock, coir_test::processors, coir_test::processors_name);

}  // namespace
