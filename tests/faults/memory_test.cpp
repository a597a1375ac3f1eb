// Without memory: what a caller can be told is thrown as std::bad_alloc, and nothing has happened then; what nobody can
// be told ends the process with a report. And what needs no memory: the operations of a program that runs.
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <functional>
#include <initializer_list>
#include <new>
#include <optional>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <coir/async.hpp>
#include <coir/coir.hpp>
#include <coir/detail/alarm.hpp>
#include <coir/detail/start_record.hpp>

#include "coir_test.hpp"
#include "refusals.hpp"

namespace {

using namespace std::chrono_literals;

class MemoryFaults : public coir_test::with_processors {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void TearDown() override {
    faults::refuse_memory(false);
    faults::refuse_memory_everywhere(false);
    faults::refuse_nothing();
  }
};

/// While one lives, the free lists that the calling thread takes the runtime's small blocks from are empty, so that it
/// has to ask for memory.
class drained_records {
 public:
  drained_records() {
    held_.reserve(200'000);
    faults::refuse_memory(true);
    for (const std::size_t size :
         std::initializer_list<std::size_t>{64, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448, 480, 512}) {
      try {
        while (held_.size() < held_.capacity()) {
          void* p = coir::detail::allocate_record(size, alignof(std::max_align_t));
          held_.emplace_back(p, size);
        }
      } catch (const std::bad_alloc&) {
      }
    }
    faults::refuse_memory(false);
  }
  ~drained_records() {
    for (const auto& [p, size] : held_) coir::detail::free_record(p, size, alignof(std::max_align_t));
  }
  drained_records(const drained_records&) = delete;
  drained_records& operator=(const drained_records&) = delete;

 private:
  std::vector<std::pair<void*, std::size_t>> held_;
};

/// Throws std::bad_alloc when there is no memory, and works once there is.
void expect_refused(const std::string& name, const std::function<void()>& f) {
  bool refused = false;
  {
    const drained_records nothing_left;
    faults::refuse_memory(true);
    try {
      f();
    } catch (const std::bad_alloc&) {
      refused = true;
    }
    faults::refuse_memory(false);
  }
  EXPECT_TRUE(refused) << name;
  EXPECT_NO_THROW(f()) << name;
}

coir::async<int> answer() { co_return 42; }

/// What can be done from fibers and plain threads.
void expect_refused_anywhere() {
  const auto ch = coir::make_chan<int>(1);
  coir::context parent = coir::with_cancel(coir::context::background()).first;
  coir::fiber_local<std::string> local;
  coir::single_flight<int, int> flights;
  coir::select_set set;
  expect_refused("make_chan", [] { static_cast<void>(coir::make_chan<int>()); });
  expect_refused("make_chan with a buffer", [] { static_cast<void>(coir::make_chan<int>(1000)); });
  expect_refused("after", [] { static_cast<void>(coir::after(1h)); });
  expect_refused("timer", [] { static_cast<void>(coir::timer{1h}); });
  expect_refused("ticker", [] { static_cast<void>(coir::ticker{1h}); });
  expect_refused("with_cancel", [&] { static_cast<void>(coir::with_cancel(parent)); });
  expect_refused("with_timeout", [&] { static_cast<void>(coir::with_timeout(parent, 1h)); });
  expect_refused("with_value", [&] { static_cast<void>(coir::with_value(parent, 1, 2)); });
  expect_refused("done", [&] { static_cast<void>(parent.done()); });
  expect_refused("timeout", [] { coir::timeout(1h, [] {}); });
  expect_refused("fiber_local", [&] { *local = "x"; });
  expect_refused("single_flight", [&] { EXPECT_EQ(flights.run(1, [] { return 2; }), 2); });
  expect_refused("select_set", [&] { set.recv(ch); });
  ch.send(1);
  EXPECT_EQ(set.wait(), 0U) << "only what was added is in it";
  EXPECT_EQ(set.size(), 1U);
}

TEST_P(MemoryFaults, WhatAFiberCannotHaveIsThrownAndNothingHasHappened) {
  run([] {
    expect_refused_anywhere();
    std::atomic<int> ran{0};
    coir::wait_group wg;
    coir::task_group group;
    coir::task<int> task;
    coir::task<int> coroutine;
    const auto ch = coir::make_chan<int>();
    std::optional<coir::timer> later;
    expect_refused("go", [&] { coir::go([&ran] { ++ran; }); });
    expect_refused("go with a large closure",
                   [&] { coir::go([&ran, a = std::array<int, 1000>{}] { ran += 1 + a[0]; }); });
    expect_refused("spawn", [&] { task = coir::spawn([] { return 7; }); });
    expect_refused("wait_group::go", [&] { wg.go([&ran] { ++ran; }); });
    expect_refused("task_group::spawn", [&] { group.spawn([&ran] { ++ran; }); });
    expect_refused("a coroutine", [&] { coroutine = coir::spawn(answer()); });
    expect_refused("async_recv", [&] { ch.async_recv([&ran](std::optional<int> v) { ran += *v; }); });
    expect_refused("after_func", [&] { later = coir::after_func(1us, [&ran] { ++ran; }); });
    expect_refused("set_name", [] { coir::this_fiber::set_name("a name that is not short"); });
    expect_refused("stop_token", [] { static_cast<void>(coir::this_fiber::stop_token()); });
    wg.wait();  // the refused one is not counted
    group.wait();
    EXPECT_EQ(task.get(), 7);
    EXPECT_EQ(coroutine.get(), 42);
    ch.send(1);
    coir_test::until([&] { return ran == 6; });
  });
}

TEST_P(MemoryFaults, WithoutMemoryForItsTimerACoroutinesWaitThrowsAndHoldsNothing) {
  run([] {
    const auto in = coir::make_chan<int>(), out = coir::make_chan<int>();
    std::stop_source stop;
    bool refused_select = false, refused_sleep = false;
    std::size_t fired = 99;
    coir::task<void> task = coir::spawn([&]() -> coir::async<void> {
      {
        const drained_records nothing_left;
        faults::refuse_memory(true);
        try {
          co_await coir::async_select(coir::on_recv(in), coir::on_send(out, 1), coir::on_stop(stop.get_token()),
                                      coir::on_timeout(1h));
        } catch (const std::bad_alloc&) {
          refused_select = true;
        }
        try {
          co_await coir::async_sleep(1h);
        } catch (const std::bad_alloc&) {
          refused_sleep = true;
        }
        faults::refuse_memory(false);
      }
      EXPECT_EQ(in.try_send(1), coir::send_status::would_block);
      fired = co_await coir::async_select(coir::on_recv(in), coir::on_send(out, 1), coir::on_stop(stop.get_token()),
                                          coir::on_timeout(1ms));
    });
    task.get();
    stop.request_stop();
    EXPECT_TRUE(refused_select);
    EXPECT_TRUE(refused_sleep);
    EXPECT_EQ(fired, 3U);
  });
}

// There is memory for its node, and none for the array that the nodes lie in.
TEST_P(MemoryFaults, WithoutMemoryForTheHeapOfTimersANewOneIsRefusedAndTheOthersStay) {
  run([] {
    std::array<coir::detail::alarm, 300> alarms;
    std::array<void*, 2 * 300> records{};
    for (void*& r : records) r = coir::detail::allocate_record(64, 64);
    for (void* r : records) coir::detail::free_record(r, 64, 64);
    std::atomic<int> called{0};
    std::size_t armed = 0;
    const auto arm = [&] {
      alarms[armed].arm(
          coir::detail::deadline_after(20ms),
          [](void* n, std::uint64_t) noexcept { ++*static_cast<std::atomic<int>*>(n); }, &called, 0);
      ++armed;
    };
    arm();
    faults::refuse_memory(true);
    bool refused = false;
    try {
      while (armed < alarms.size()) arm();
    } catch (const std::bad_alloc&) {
      refused = true;
    }
    faults::refuse_memory(false);
    EXPECT_TRUE(refused);
    EXPECT_FALSE(alarms[armed].disarm());
    arm();
    coir_test::until([&] { return called == static_cast<int>(armed); });
  });
}

TEST_P(MemoryFaults, WhatAThreadCannotHaveIsThrownAndNothingHasHappened) {
  coir::runtime rt{opts()};
  expect_refused_anywhere();
  std::atomic<int> ran{0};
  coir::task<int> task;
  expect_refused("go", [&] { rt.go([&ran] { ++ran; }); });
  expect_refused("spawn", [&] { task = rt.spawn([] { return 7; }); });
  EXPECT_EQ(task.get(), 7);
  rt.wait();
  EXPECT_EQ(ran, 1);
}

// Each allocation of a runtime's birth fails in turn.
TEST_P(MemoryFaults, ARuntimeThatCannotBeMadeLeavesNothing) {
  run([] {});
  int failures = 0;
  for (int granted = 0;; ++granted) {
    bool made = false;
    faults::refuse_memory_after(granted);
    try {
      const coir::runtime rt{opts()};
      made = true;
    } catch (const std::bad_alloc&) {
      ++failures;
    }
    const int refused = faults::memory_refused();
    faults::refuse_memory(false);
    EXPECT_TRUE(made || refused != 0);
    if (refused == 0) break;
  }
  EXPECT_GT(failures, static_cast<int>(GetParam()));
  // Neither a runtime nor a thread is left that could act: deadlocks are certain.
  EXPECT_THROW(run([] { coir::make_chan<int>().recv(); }), coir::deadlock);
}

// The caller of run() must stay until its fiber has ended, memory or not.
TEST_P(MemoryFaults, RunAndWaitNeedNone) {
  EXPECT_EXIT(
      {
        coir::runtime rt{opts()};
        rt.go([] {});  // a record or two in the free lists
        faults::refuse_memory(true);
        const int got = rt.run([] {
          coir::yield();
          return 7;
        });
        rt.wait();
        faults::refuse_memory(false);
        std::_Exit(got);
      },
      testing::ExitedWithCode(7), "");
}

TEST_P(MemoryFaults, WithoutMemoryForAThreadTheFirstWorkerDoesTheWork) {
  coir::runtime rt{opts()};
  rt.run([] {
    std::atomic<int> ran{0};
    std::vector<coir::task<void>> tasks;
    for (int i = 0; i < 100; ++i) tasks.push_back(coir::spawn([&ran] { ++ran; }));
    for (auto& t : tasks) t.get();
    tasks.clear();
    tasks.reserve(100);
    // What the first worker wakes others for.
    int wanted = 0;
    faults::refuse_memory(true);
    for (int i = 0; i < 100; ++i) {
      try {
        tasks.push_back(coir::spawn([&ran] { ++ran; }));
        ++wanted;
      } catch (const std::bad_alloc&) {
      }
    }
    faults::refuse_memory(false);
    for (auto& t : tasks) t.get();
    EXPECT_EQ(ran, 100 + wanted);
  });
}

// Whether a deadlock is certain takes memory to find out; without any the wait goes on.
TEST_P(MemoryFaults, ADeadlockIsFoundOnceThereIsMemory) {
  coir::runtime rt{opts()};
  coir::task<void> t = rt.spawn([] { coir::make_chan<int>().recv(); });
  coir_test::until_blocked(t);
  std::thread later([] {
    std::this_thread::sleep_for(20ms);
    faults::refuse_memory_everywhere(false);
  });
  faults::refuse_memory_everywhere(true);
  EXPECT_THROW(rt.wait(), coir::deadlock);
  later.join();
}

TEST_P(MemoryFaults, AFiberIsCancelledAndAContextEndsWithoutAny) {
  run([] {
    coir::task<void> t = coir::spawn([] { coir::make_chan<int>().recv(); });
    coir::task<void> late = coir::spawn([] { coir::timeout(20ms, [] { coir::make_chan<int>().recv(); }); });
    const auto [ctx, cancel] = coir::with_cancel(coir::context::background());
    coir_test::until_blocked(t);
    coir_test::until_blocked(late);
    faults::refuse_memory_everywhere(true);
    t.request_stop();
    t.wait();
    late.wait();
    cancel();
    const std::exception_ptr why = ctx.err();
    faults::refuse_memory_everywhere(false);
    EXPECT_THROW(t.get(), coir::task_cancelled);
    EXPECT_THROW(late.get(), coir::timed_out);
    EXPECT_THROW(std::rethrow_exception(why), coir::context_cancelled);
  });
}

TEST_P(MemoryFaults, ATraceThatCannotBeginLeavesEverythingAsItWas) {
  const std::string path = testing::TempDir() + "coir_no_memory_" + std::to_string(::getpid()) + ".json";
  coir::runtime rt{opts()};
  bool begun = false;
  int refused = 0;
  for (int granted = 0; !begun && granted < 1000; ++granted) {
    faults::refuse_memory_after(granted);
    try {
      coir::trace_start(path);
      begun = true;
    } catch (const std::bad_alloc&) {
      ++refused;
    }
    faults::refuse_memory(false);
    std::atomic<int> done{0};
    for (int i = 0; i < 10; ++i) rt.go([&] { ++done; });
    rt.wait();
    EXPECT_EQ(done, 10);
  }
  EXPECT_TRUE(begun);
  EXPECT_GE(refused, 3);
  coir::trace_stop();
  ::unlink(path.c_str());
}

// ---- reports: there is nobody to throw to
// -----------------------------------------------------------------------------

TEST_P(MemoryFaults, WithoutMemoryForTheTimerOfAWaitTheReportNamesTheFiber) {
  EXPECT_EXIT(coir::run(opts(),
                        [] {
                          coir::this_fiber::set_name("the sleeper");
                          const drained_records nothing_left;
                          faults::refuse_memory(true);
                          coir::sleep_for(1h);
                        }),
              testing::KilledBySignal(SIGABRT),
              "coir: fatal: no memory for the timer of fiber [0-9]+ \"the sleeper\", spawned at .*memory_test.cpp:");
}

TEST_P(MemoryFaults, WithoutMemoryForWhatACoroutineTakesAlongTheReportNamesIt) {
  EXPECT_EXIT(coir::run(opts(),
                        [] {
                          const auto never = coir::make_chan<int>();
                          coir::spawn([never]() -> coir::async<void> {
                            coir::this_fiber::set_name("the traveller");
                            faults::refuse_memory(true);
                            co_await never.async_recv();
                          }).get();
                        }),
              testing::KilledBySignal(SIGABRT),
              "coir: fatal: no memory for the name, stop source or fiber_locals of a coroutine that is to sleep: "
              "async [0-9]+, spawned at .*memory_test.cpp:");
}

TEST_P(MemoryFaults, WithoutMemoryForTheListOfStacksTheReportNamesTheSpawnSite) {
  EXPECT_EXIT(
      {
        coir::runtime rt{opts()};
        rt.run([] {
          const auto never = coir::make_chan<void>();
          faults::refuse_memory_everywhere(true);
          for (int i = 0; i < 100; ++i) {
            try {
              coir::go([never] { never.recv(); });
            } catch (const std::bad_alloc&) {
            }
            coir::yield();
          }
          std::_Exit(0);  // as many stacks as that would have to be noted down somewhere
        });
      },
      testing::KilledBySignal(SIGABRT), "no stack for a fiber spawned at .*memory_test.cpp:[0-9]+: std::bad_alloc");
}

TEST_P(MemoryFaults, WithoutMemoryForTheFiberOfAnAfterFuncThereIsAReport) {
  if (GetParam() != 1) GTEST_SKIP() << "another processor may fire it, and have memory";
  EXPECT_EXIT(run([] {
                const auto never = coir::make_chan<void>();
                const coir::timer later = coir::after_func(10ms, [] {});
                const drained_records nothing_left;
                faults::refuse_memory_everywhere(true);
                never.recv();
              }),
              testing::KilledBySignal(SIGABRT), "coir: fatal: no memory for the fiber of an after_func");
}

// ---- what needs no memory
// -----------------------------------------------------------------------------------------------

/// `rounds` of each must not take an allocation a round, nor one in a hundred.
void expect_no_allocations(const std::string& name, const std::function<void(int rounds)>& f) {
  constexpr int rounds = 2'000;
  f(rounds);  // fills the free lists
  const long before = faults::allocations();
  f(rounds);
  EXPECT_LT(faults::allocations() - before, rounds / 100) << name;
}

TEST_P(MemoryFaults, OperationsOfARunningProgramAllocateNothing) {
  run([] {
    const auto ping_pong = [](std::size_t capacity) {
      return [capacity](int rounds) {
        const auto there = coir::make_chan<int>(capacity), back = coir::make_chan<int>(capacity);
        coir::task<void> echo = coir::spawn([&] {
          for (const int v : there) back.send(v);
        });
        for (int i = 0; i < rounds; ++i) {
          there.send(i);
          back.recv();
        }
        there.close();
        echo.get();
      };
    };
    expect_no_allocations("unbuffered channel", ping_pong(0));
    expect_no_allocations("buffered channel", ping_pong(4));
    expect_no_allocations("select with a timeout", [](int rounds) {
      const auto ch = coir::make_chan<int>(), other = coir::make_chan<int>();
      coir::task<void> sender = coir::spawn([&] {
        for (int i = 0; i < rounds; ++i) coir::select(coir::on_send(ch, i), coir::on_recv(other));
      });
      for (int i = 0; i < rounds; ++i) coir::select(coir::on_recv(other), coir::on_recv(ch), coir::on_timeout(1h));
      sender.get();
    });
    expect_no_allocations("timed receive", [](int rounds) {
      const auto ch = coir::make_chan<int>();
      int value = 0;
      for (int i = 0; i < rounds; ++i) ch.recv_for(value, 1us);
    });
    expect_no_allocations("sleep", [](int rounds) {
      for (int i = 0; i < rounds; ++i) coir::sleep_for(1us);
    });
    expect_no_allocations("mutex, semaphore, condition_variable", [](int rounds) {
      coir::mutex m;
      coir::semaphore s(1);
      coir::condition_variable turn;
      bool mine = true;
      const auto play = [&](bool side) {
        for (int i = 0; i < rounds; ++i) {
          s.acquire();
          s.release();
          std::unique_lock lock(m);
          turn.wait(lock, [&] { return mine == side; });
          mine = !side;
          turn.notify_one();
        }
      };
      coir::task<void> other = coir::spawn([&] { play(false); });
      play(true);
      other.get();
    });
    expect_no_allocations("go, spawn and join of small closures", [](int rounds) {
      coir::wait_group all;
      for (int i = 0; i < rounds; ++i) {
        all.go([&rounds] { static_cast<void>(rounds); });
        EXPECT_EQ(coir::spawn([i] { return i; }).get(), i);
        all.wait();
      }
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, MemoryFaults, coir_test::processors, coir_test::processors_name);

}  // namespace
