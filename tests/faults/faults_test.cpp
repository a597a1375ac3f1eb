// When the system refuses threads, memory or a system call, the runtime says so by name or does without; it never
// hangs.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <new>
#include <optional>
#include <semaphore>
#include <system_error>
#include <thread>
#include <vector>

#include <coir/chan.hpp>
#include <coir/detail/alarm.hpp>
#include <coir/generator.hpp>
#include <coir/mutex.hpp>
#include <coir/runtime.hpp>
#include <coir/select.hpp>
#include <coir/time.hpp>
#include <coir/timeout.hpp>

#include "coir_test.hpp"
#include "refusals.hpp"

namespace {

using faults::call;
using namespace std::chrono_literals;

class Faults : public coir_test::with_processors {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void TearDown() override { faults::refuse_nothing(); }

  /// Fibers that start each other, pass values and sleep: most of what the runtime does.
  static void work() {
    auto ch = coir::make_chan<int>(3);
    std::vector<coir::task<void>> senders;
    for (int i = 0; i < 10; ++i) {
      senders.push_back(coir::spawn([ch, i] {
        for (int k = 0; k < 20; ++k) {
          ch.send(i);
          if (k % 7 == 0) coir::sleep_for(100us);
        }
      }));
    }
    int sum = 0;
    for (int i = 0; i < 200; ++i) sum += *ch.recv();
    for (coir::task<void>& t : senders) t.get();
    EXPECT_EQ(sum, 20 * 45);
  }
};

// ---- threads -------------------------------------------------------------------------------------------------------

TEST_P(Faults, WithoutAnyThreadTheConstructorThrows) {
  for (int skip = 0; skip < 2; ++skip) {  // the first worker's, the monitor's
    faults::refuse(call::thread_creation, 1, skip);
    EXPECT_THROW(coir::runtime{opts()}, std::system_error);
    EXPECT_EQ(faults::refused(call::thread_creation), 1);
  }
  faults::refuse_nothing();
  run(work);
}

TEST_P(Faults, WithoutFurtherThreadsTheFirstWorkerDoesTheWork) {
  testing::internal::CaptureStderr();
  {
    coir::runtime rt{opts()};
    faults::refuse(call::thread_creation);
    rt.run(work);
    rt.wait();
  }
  const std::string said = testing::internal::GetCapturedStderr();
  if (faults::refused(call::thread_creation) > 0) {
    EXPECT_NE(said.find("coir: no thread for a processor"), std::string::npos) << said;
    EXPECT_EQ(said.find("coir: no thread"), said.rfind("coir: no thread")) << "once";
  }
}

TEST_P(Faults, ABlockedThreadThatCannotBeReplacedHoldsUpOthersOnlyAsLongAsItBlocks) {
  coir::runtime rt{opts()};
  rt.run([] {});
  faults::refuse(call::thread_creation);
  std::binary_semaphore unblock{0};
  std::atomic<int> blocked{0};
  std::vector<coir::task<void>> blockers;
  for (unsigned i = 0; i < GetParam(); ++i) {
    blockers.push_back(rt.spawn([&] {
      ++blocked;
      unblock.acquire();
      unblock.release();
    }));
  }
  coir::task<int> waits = rt.spawn([] { return 5; });
  coir_test::until([&] { return blocked > 0; });
  unblock.release();
  EXPECT_EQ(waits.get(), 5);
  for (coir::task<void>& t : blockers) t.get();
  rt.wait();
}

TEST_P(Faults, BlockingWithoutAThreadToHandOnToHoldsUpOthersOnlyAsLongAsItBlocks) {
  coir::runtime rt{opts()};
  rt.run([] {});
  faults::refuse(call::thread_creation);
  std::binary_semaphore unblock{0};
  std::atomic<int> blocked{0};
  std::vector<coir::task<int>> blockers;
  for (unsigned i = 0; i < GetParam(); ++i) {
    blockers.push_back(rt.spawn([&] {
      return coir::blocking([&] {
        ++blocked;
        unblock.acquire();
        unblock.release();
        return 3;
      });
    }));
  }
  coir::task<int> waits = rt.spawn([] { return 5; });
  coir_test::until([&] { return blocked > 0; });
  unblock.release();
  EXPECT_EQ(waits.get(), 5);
  for (coir::task<int>& t : blockers) EXPECT_EQ(t.get(), 3);
  rt.wait();
}

// What keeps time for plain threads has a thread, which is started when it is first needed.
TEST_P(Faults, WithoutAThreadATimerOfAPlainThreadThrows) {
  EXPECT_EXIT(
      {
        faults::refuse(call::thread_creation, 2);
        EXPECT_THROW(coir::timer{1h}, std::system_error);
        EXPECT_THROW(coir::timeout(1h, [] {}), std::system_error);
        EXPECT_EQ(coir::timeout(1h, [] { return 2; }), 2);
        EXPECT_TRUE(coir::after(1ms).recv());
        std::_Exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

// The processor is taken from the computing fiber for a thread that then cannot be had; what is queued there is not
// lost, nor is there a deadlock.
TEST_P(Faults, ARetakeThatFindsNoThreadLosesNothing) {
  for (const bool refused_at_the_join : {false, true}) {
    coir::runtime rt{opts()};
    const int got = rt.run([&] {
      std::vector<coir::task<int>> tasks;
      for (int i = 0; i < 20; ++i) {
        tasks.push_back(coir::spawn([i] {
          coir::yield();
          return i;
        }));
      }
      coir::yield();
      faults::refuse(call::thread_creation);
      const auto end = std::chrono::steady_clock::now() + 60ms;
      while (std::chrono::steady_clock::now() < end) {
      }
      if (!refused_at_the_join) faults::refuse_nothing();
      int sum = 0;
      for (coir::task<int>& t : tasks) sum += t.get();
      return sum;
    });
    EXPECT_EQ(got, 190);
    faults::refuse_nothing();
    rt.wait();
  }
}

// ---- memory --------------------------------------------------------------------------------------------------------

TEST_P(Faults, WithoutMemoryForAStackTheReportNamesTheSpawnSite) {
  EXPECT_EXIT(
      {
        coir::runtime rt{opts()};
        faults::refuse(call::mapping);
        rt.spawn([] {}).get();
      },
      testing::KilledBySignal(SIGABRT), "no stack for a fiber spawned at .*faults_test.cpp:[0-9]+: .*cannot reserve");
}

/// The system takes its time to give memory for stacks: meanwhile somebody uses the channel at which the fiber that ran
/// last has blocked, most often.
struct slow_mappings {
  coir::chan<void> ch = coir::make_chan<void>();
  std::counting_semaphore<> sent{0};
  std::vector<std::thread> others;
  int went_on = 0;

  static void look(void* arg) {
    auto& self = *static_cast<slow_mappings*>(arg);
    self.others.emplace_back([&self] {
      static_cast<void>(self.ch.try_send());
      self.sent.release();
    });
    if (!self.sent.try_acquire_for(10s))
      ADD_FAILURE() << "held up";
    else if (++self.went_on < 10)
      faults::before_next_mapping(&look, arg);
  }
};

TEST_P(Faults, WhileTheSystemIsAskedForStacksNoLockIsHeld) {
  slow_mappings slow;
  coir::run(opts(), [&] {
    faults::before_next_mapping(&slow_mappings::look, &slow);
    std::vector<coir::task<void>> receivers;
    for (int i = 0; i < 1000; ++i) receivers.push_back(coir::spawn([&] { slow.ch.recv(); }));
    for (const coir::task<void>& r : receivers)
      while (r.status() == coir::task_status::queued) coir::yield();
    slow.ch.close();
  });
  faults::before_next_mapping(nullptr, nullptr);
  for (std::thread& t : slow.others) t.join();
  EXPECT_GT(slow.went_on, 0);
}

TEST_P(Faults, WithoutMemoryForAStackAGeneratorThrows) {
  run([] {
    const auto count_to_three = [](coir::generator<int>::yielder& yield) {
      for (int i = 1; i <= 3; ++i) yield(i);
    };
    const coir::coroutine_options rare{.stack_size =
                                           std::size_t{GetParam()} * 1024 * 1024};  // none of that size is free
    faults::refuse(call::mapping, 1);
    EXPECT_THROW(coir::generator<int>(rare, count_to_three), std::system_error);
    EXPECT_EQ(faults::refused(call::mapping), 1);
    int sum = 0;
    for (const int i : coir::generator<int>(rare, count_to_three)) sum += i;
    EXPECT_EQ(sum, 6);
  });
}

TEST_P(Faults, WithoutMemoryForARecordSpawnThrowsAndNothingIsLost) {
  run([] {
    int thrown = 0;
    std::atomic<int> ran{0};
    for (int i = 0; i < 300; ++i) {
      struct large {
        char bytes[2000];  // more than the pool has
      };
      faults::refuse_memory(true);
      try {
        coir::go([&ran, payload = large{}] { ran += 1 + payload.bytes[0]; });
      } catch (const std::bad_alloc&) {
        ++thrown;
      }
      faults::refuse_memory(false);
    }
    EXPECT_EQ(thrown, 300);
    coir::spawn([] {}).get();
    EXPECT_EQ(ran, 0);
  });
}

// What overflows a run ring needs memory to be queued elsewhere; it finds another way.
TEST_P(Faults, WithoutMemoryForTheOverflowOfAQueueNothingIsLost) {
  run([] {
    constexpr int many = 2'000;
    std::atomic<int> ran{0};
    const auto body = [&ran] { ++ran; };
    std::vector<coir::task<void>> warm;  // records for all of them, which then are free
    for (int i = 0; i < many; ++i) warm.push_back(coir::spawn(body));
    warm.clear();
    ran = 0;
    int thrown = 0;
    faults::refuse_memory(true);
    for (int i = 0; i < many; ++i) {
      try {
        coir::go(body);
      } catch (const std::bad_alloc&) {
        ++thrown;
      }
    }
    faults::refuse_memory(false);
    EXPECT_GT(many - thrown, 600) << "more than a ring holds";
    coir_test::until([&] { return ran == many - thrown; });
  });
}

TEST_P(Faults, GuardsAreMadeOtherwise) {
  const auto overflow = [&] {
    faults::refuse(call::guard_advice);
    faults::refuse(call::any_process_advice);
    run([] {
      struct walk {
        [[gnu::noinline]] static int down(int depth) {
          volatile char frame[1024];
          frame[0] = static_cast<char>(depth);
          return depth < 0 ? 0 : down(depth + 1) + frame[0];
        }
      };
      return walk::down(0);
    });
  };
  EXPECT_EXIT(overflow(), testing::KilledBySignal(SIGSEGV), "stack overflow in fiber");
  faults::refuse(call::guard_advice);
  faults::refuse(call::any_process_advice);
  run(work);
  EXPECT_GT(faults::refused(call::guard_advice), 0);
}

TEST_P(Faults, WithoutASignalStackEverythingElseWorks) {
  faults::refuse(call::signal_stack);
  run(work);
  EXPECT_GT(faults::refused(call::signal_stack), 0);
}

// ---- system calls --------------------------------------------------------------------------------------------------

// Whether the kernel has it is asked once a process.
TEST_P(Faults, WithoutMembarrierFencesAreReal) {
  EXPECT_EXIT(
      {
        faults::refuse(call::membarrier);
        for (int i = 0; i < 20; ++i) run(work);
        std::_Exit(faults::refused(call::membarrier) > 0 && !testing::Test::HasFailure() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

// A seccomp filter, say, that comes too late: fences that do nothing must not pass in silence.
TEST_P(Faults, MembarrierThatFailsLaterIsReported) {
  EXPECT_EXIT(
      {
        run(work);
        faults::refuse(call::membarrier);
        coir::runtime rt{opts()};
        rt.run(work);
        std::this_thread::sleep_for(20s);  // its monitor goes to sleep, behind a fence, if no worker did before
        std::_Exit(0);
      },
      testing::KilledBySignal(SIGABRT), "coir: fatal: the system call membarrier, which has worked until now, fails");
}

TEST_P(Faults, WaitsThatEndForNoReasonAreTakenUpAgain) {
  for (int i = 0; i < 20; ++i) {
    faults::refuse(call::futex_wait_early, 200, i);
    run(work);
    auto ch = coir::make_chan<int>();
    coir::runtime rt{opts()};
    rt.go([ch] { ch.send(7); });
    EXPECT_EQ(ch.recv(), 7);  // a plain thread
    rt.wait();
  }
}

TEST_P(Faults, AWaitThatTheKernelRefusesIsReported) {
  EXPECT_EXIT(
      {
        faults::refuse(call::futex_wait_broken);
        run(work);
      },
      testing::KilledBySignal(SIGABRT), "coir: fatal: futex wait failed, errno 38");
}

/// A thread that cancels a runtime's last timer, and is slow to tell those who wait for the runtime's end.
struct slow_canceller {
  explicit slow_canceller(coir::runtime& r) : rt(r) {}

  coir::runtime& rt;
  std::thread other;
  coir::detail::alarm timer;
  coir::detail::deadline when = 0;
  std::binary_semaphore ran{0};
  bool was_slow = false;
  bool others_went_on = false;

  static void never_mind(void*, std::uint64_t) noexcept {}

  void cancel() {
    faults::before_next_wake([](void* self) { static_cast<slow_canceller*>(self)->be_slow(); }, this);
    timer.disarm();
    faults::before_next_wake(nullptr, nullptr);
    if (other.joinable()) other.join();
  }

  /// Meanwhile the timer becomes due, somebody looks at it, and another thread has work for the runtime.
  void be_slow() {
    was_slow = true;
    std::this_thread::sleep_until(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(when) + 10ms));
    other = std::thread([this] { rt.go([this] { ran.release(); }); });
    others_went_on = ran.try_acquire_for(10s);
  }
};

TEST_P(Faults, WhoIsSlowToTellOfACancelledTimerHoldsUpNobody) {
  bool was_slow = false;
  while (!was_slow) {  // not, if nobody waited yet, or the timer had fired
    coir::runtime rt{opts()};
    slow_canceller canceller(rt);
    auto end = coir::make_chan<void>();
    std::binary_semaphore armed{0};
    rt.go([&, end] {
      canceller.when = coir::detail::deadline_after(30ms);
      canceller.timer.arm(canceller.when, &slow_canceller::never_mind, nullptr);
      armed.release();
      end.recv();
    });
    std::thread thread([&] {
      armed.acquire();
      canceller.cancel();
      end.send();
    });
    rt.wait();
    thread.join();
    was_slow = canceller.was_slow;
    EXPECT_EQ(canceller.others_went_on, was_slow);
  }
}

/// A runtime's destructor that is slow between finding that no fiber is left and telling its threads to end: so slow
/// that a timer becomes due there.
struct slow_end {
  coir::detail::deadline due = 0;
  bool in_time = false;

  static void wait_for_timer(void* arg) {
    auto& self = *static_cast<slow_end*>(arg);
    self.in_time = coir::detail::now() < self.due;
    std::this_thread::sleep_until(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(self.due) + 20ms));
  }
};

TEST_P(Faults, AFunctionThatIsDueWhileItsRuntimeEndsIsNotCalled) {
  slow_end end;
  while (!end.in_time) {
    std::atomic<int> calls{0};
    auto nobody_sends = coir::make_chan<int>();
    std::optional<coir::timer> late;
    {
      coir::runtime rt{opts()};
      rt.run([&] {
        end.due = coir::detail::deadline_after(30ms);
        late.emplace(coir::after_func(30ms, [&] {
          ++calls;
          nobody_sends.recv();
        }));
      });
      faults::before_next_wake(&slow_end::wait_for_timer, &end);
    }
    faults::before_next_wake(nullptr, nullptr);
    if (end.in_time) {
      EXPECT_EQ(calls, 0);
    }
    coir::select(coir::on_send(nobody_sends, 1), coir::otherwise());  // finds no fiber that is gone
  }
}

// std::thread allocates. Here a plain thread that starts a fiber is to start a worker for it, too.
TEST_P(Faults, WithoutMemoryForAThreadTheWorkersThatThereAreDoTheWork) {
  for (int i = 0; i < 5; ++i) {
    coir::runtime rt{opts()};
    std::atomic<bool> ran{false};
    std::atomic<bool> computes{false};
    rt.go([&] {  // leaves this thread more records than it needs
      computes = true;
      while (!ran) coir_test::pause();
    });
    coir_test::until([&] { return computes.load(); });
    faults::refuse_memory(true);
    rt.go([&] { ran = true; });
    faults::refuse_memory(false);
    rt.wait();
  }
}

INSTANTIATE_TEST_SUITE_P(Processors, Faults, coir_test::processors, coir_test::processors_name);

}  // namespace
