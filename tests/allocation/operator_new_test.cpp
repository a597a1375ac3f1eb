// A program may replace operator new and delete by functions that lock a coir::mutex, or block in another of coir's
// ways. So the library calls them nowhere but where its caller's own code runs.
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <coir/async.hpp>
#include <coir/coir.hpp>
#include <coir/coroutine.hpp>
#include <coir/generator.hpp>

#include "coir_test.hpp"
#include "replaced_new.hpp"

namespace {

using namespace std::chrono_literals;
using allocation::coir_heap;
using coir_test::scaled;

class OperatorNew : public coir_test::with_processors {};

/// What a program does between its waits.
void allocate_something(int i) {
  const std::vector<int> v(static_cast<std::size_t>(i % 50 + 1), i);
  const auto s = std::make_unique<std::string>(100, 'x');
  EXPECT_EQ(v.back(), i);
}

/// f(i) in so many fibers at once.
template <class F>
void in_fibers(int count, F f) {
  std::vector<coir::task<void>> all;
  for (int i = 0; i < count; ++i) all.push_back(coir::spawn([&f, i] { f(i); }));
  for (auto& t : all) t.get();
}

TEST_P(OperatorNew, MayLockAMutexWhileTimedWaitsMakeTheTimerHeapGrow) {
  coir::runtime rt{opts()};
  const coir_heap heap;
  rt.run([] {
    const auto never = coir::make_chan<int>();
    coir::timed_mutex taken;
    const std::lock_guard held(taken);
    in_fibers(scaled(3'000), [&](int i) {
      for (int round = 0; round < 4; ++round) {
        allocate_something(i);
        const auto time = std::chrono::microseconds(100 + (i * 37 + round * 411) % 20'000);
        switch ((i + round) % 4) {
          case 0:
            coir::sleep_for(time);
            break;
          case 1:
            EXPECT_FALSE(taken.try_lock_for(time));
            break;
          case 2: {
            int value = 0;
            EXPECT_EQ(never.recv_for(value, time), coir::recv_status::timed_out);
            break;
          }
          default:
            EXPECT_EQ(coir::select(coir::on_recv(never), coir::on_timeout(time)), 1U);
        }
      }
    });
  });
  EXPECT_GT(heap.contended(), 0);
}

TEST_P(OperatorNew, MayLockAMutexWhileMoreFibersAreReadyThanTheRingsHold) {
  coir::runtime rt{opts()};
  const coir_heap heap;
  rt.run([] {
    in_fibers(scaled(5'000), [](int i) {
      allocate_something(i);
      coir::yield();
      allocate_something(i);
    });
  });
  EXPECT_GT(heap.calls_on_fibers(), 0);
}

TEST_P(OperatorNew, MayLockAMutexWhileStacksAreMade) {
  coir::runtime rt{opts()};
  const coir_heap heap;
  rt.run([] {
    const auto gate = coir::make_chan<void>();
    std::vector<coir::task<void>> all;
    for (int i = 0; i < scaled(2'000); ++i) {
      coir::spawn_options o;
      if (i % 3 == 0) o.stack_size = std::size_t{16} * 1024 << i % 4;
      all.push_back(coir::spawn(o, [&gate, i] {
        allocate_something(i);
        gate.recv();
        coir::generator<int> numbers([](auto& yield) {
          for (int k = 0; k < 3; ++k) yield(k);
        });
        for (const int each : numbers) allocate_something(each);
      }));
    }
    coir::yield();
    gate.close();
    for (auto& t : all) t.get();
  });
}

TEST_P(OperatorNew, MayLockAMutexWhileTimersOfAllKindsFireAndAreDropped) {
  coir::runtime rt{opts()};
  const coir_heap heap;
  rt.run([&] {
    in_fibers(scaled(1'000), [&](int i) {
      const auto time = std::chrono::microseconds(i * 29 % 3'000);
      allocate_something(i);
      {
        const auto [ctx, cancel] = coir::with_timeout(coir::context::background(), time);
        const auto [below, cancel_below] = coir::with_cancel(coir::with_value(ctx, 1, i));
        if (i % 2 == 0) below.done().recv();
      }
      {
        const coir::ticker ticks(time + 1us);
        if (i % 2 == 0) ticks.c().recv();
      }
      const coir::timer later = coir::after_func(time, [i] { allocate_something(i); });
      try {
        coir::timeout(time, [] { coir::make_chan<int>().recv(); });
      } catch (const coir::timed_out&) {
      }
      coir::after(time).recv();
    });
  });
  EXPECT_GT(heap.calls_on_fibers(), 0);
}

TEST_P(OperatorNew, MayLockAMutexInCoroutines) {
  coir::runtime rt{opts()};
  const coir_heap heap;
  rt.run([] {
    const auto never = coir::make_chan<int>();
    coir::mutex m;
    std::vector<coir::task<void>> all;
    for (int i = 0; i < scaled(2'000); ++i) {
      all.push_back(coir::spawn([](int n, coir::recv_chan<int> nothing, coir::mutex& lock) -> coir::async<void> {
        if (n % 3 == 0) coir::this_fiber::set_name("the coroutine that waits, number " + std::to_string(n));
        co_await coir::async_sleep(std::chrono::microseconds(n * 31 % 5'000));
        allocate_something(n);
        co_await coir::async_select(coir::on_recv(nothing), coir::on_timeout(1ms));
        co_await lock.async_lock();
        allocate_something(n);
        lock.unlock();
      }(i, never, m)));
    }
    for (auto& t : all) t.get();
  });
}

// Which takes processors from them, so that workers, and their threads, are made.
TEST_P(OperatorNew, MayLockAMutexWhileThreadsAreStartedAndBlocked) {
  for (int round = 0; round < scaled(20); ++round) {
    coir::runtime rt{opts()};
    const coir_heap heap;
    rt.run([] {
      in_fibers(40, [](int i) {
        for (int k = 0; k < 5; ++k) {
          allocate_something(i);
          if (i % 4 == 0) coir::blocking([] { std::this_thread::sleep_for(300us); });
          if (i % 7 == 0) std::this_thread::sleep_for(500us);
          coir::sleep_for(50us);
        }
      });
    });
  }
}

TEST_P(OperatorNew, MayLockAMutexThatPlainThreadsLockToo) {
  coir::runtime rt{opts()};
  const coir_heap heap;
  const auto ch = coir::make_chan<std::string>(4);
  std::vector<std::thread> threads;
  constexpr int each = 500;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < scaled(each); ++i) {
        allocate_something(i);
        ch.send(std::string(50, 'y'));
        rt.go([i] { allocate_something(i); });
      }
    });
  }
  rt.run([&] {
    for (int i = 0; i < 3 * scaled(each); ++i) EXPECT_EQ(ch.recv()->size(), 50U);
  });
  for (auto& t : threads) t.join();
  rt.wait();
}

TEST_P(OperatorNew, MayLockAMutexWhileADeadlockIsUnwound) {
  coir::runtime rt{opts()};
  const coir_heap heap;
  EXPECT_THROW(rt.run([] {
    in_fibers(50, [](int i) {
      const std::vector<int> v(static_cast<std::size_t>(i + 1));
      coir::this_fiber::set_name("a fiber that waits for ever, number " + std::to_string(i));
      static_cast<void>(coir::this_fiber::stop_token());
      coir::make_chan<int>().recv();
    });
  }),
               coir::deadlock);
}

INSTANTIATE_TEST_SUITE_P(Processors, OperatorNew, coir_test::processors, coir_test::processors_name);

}  // namespace
