// mutex::async_lock: coroutines among the fibers and threads that lock.
#include <coir/async.hpp>
#include <coir/chan.hpp>
#include <coir/mutex.hpp>
#include <coir/timed_mutex.hpp>

#include <atomic>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "actor.hpp"
#include "coir_test.hpp"

namespace {

using coir::async;
using coir_test::scaled;
using coir_test::until_blocked;

class AsyncMutex : public coir_test::with_processors {};

async<void> count(coir::mutex& m, int& counter, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    co_await m.async_lock();
    const std::unique_lock held(m, std::adopt_lock);
    ++counter;
  }
}

TEST_P(AsyncMutex, ExcludesCoroutinesFibersAndThreads) {
  coir::runtime rt{opts()};
  coir::mutex m;
  int counter = 0;
  const int rounds = scaled(20'000);
  std::vector<coir::task<void>> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(rt.spawn(count(m, counter, rounds)));
    all.push_back(rt.spawn([&] {
      for (int k = 0; k < rounds; ++k) {
        const std::lock_guard held(m);
        ++counter;
      }
    }));
  }
  for (int k = 0; k < rounds; ++k) {
    const std::lock_guard held(m);
    ++counter;
  }
  for (auto& t : all) t.get();
  EXPECT_EQ(counter, 9 * rounds);
  EXPECT_TRUE(m.try_lock());
  m.unlock();
}

TEST_P(AsyncMutex, IsHeldAcrossAnAwait) {
  run([] {
    coir::mutex m;
    const auto go_on = coir::make_chan<void>();
    coir::task<void> t = coir::spawn([&m, go_on]() -> async<void> {
      co_await m.async_lock();
      co_await go_on.async_recv();
      m.unlock();
    });
    until_blocked(t);
    EXPECT_FALSE(m.try_lock());
    go_on.send();
    t.get();
    EXPECT_TRUE(m.try_lock());
    m.unlock();
    EXPECT_THROW(m.unlock(), std::logic_error);
  });
}

TEST_P(AsyncMutex, IsHandedOverInTheOrderTheyCame) {
  for (const sync_test::kind k : sync_test::both_kinds) {
    run([&] {
      coir::mutex m;
      m.lock();
      std::vector<int> order;
      std::vector<coir::task<void>> all;
      for (int i = 0; i < 5; ++i) {
        all.push_back(coir::spawn([&m, &order, i]() -> async<void> {
          co_await m.async_lock();
          order.push_back(i);
          m.unlock();
        }));
        until_blocked(all.back());
      }
      sync_test::actor last(k, [&] {
        m.lock();
        order.push_back(5);
        m.unlock();
      });
      last.until_blocked();
      m.unlock();
      for (auto& t : all) t.get();
      last.join();
      EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5}));
    });
  }
}

TEST_P(AsyncMutex, ACancelledOneKeepsItsPlace) {
  run([] {
    coir::mutex m;
    m.lock();
    bool locked = false;
    coir::task<void> first = coir::spawn([&]() -> async<void> {
      co_await m.async_lock();
      locked = true;
      m.unlock();
      EXPECT_THROW(coir::make_chan<int>().recv(), coir::cancelled);
    });
    until_blocked(first);
    coir::task<void> second = coir::spawn([&]() -> async<void> {
      co_await m.async_lock();
      m.unlock();
    });
    until_blocked(second);
    first.request_stop();
    for (int i = 0; i < 10; ++i) coir::yield();
    EXPECT_EQ(first.status(), coir::task_status::blocked);
    m.unlock();
    first.get();
    second.get();
    EXPECT_TRUE(locked);
    EXPECT_TRUE(m.try_lock());
    m.unlock();
  });
}

TEST_P(AsyncMutex, ACancellationThatComesMeanwhileIsSeenAtTheNextWait) {
  run([] {
    coir::mutex m;
    int had = 0;
    const int rounds = scaled(5'000);
    for (int i = 0; i < rounds; ++i) {
      m.lock();
      coir::task<void> t = coir::spawn([&]() -> async<void> {
        co_await m.async_lock();
        ++had;
        m.unlock();
      });
      coir::task<void> unlocker = coir::spawn([&, i] {
        for (int k = i % 5; k > 0; --k) coir::yield();
        m.unlock();
      });
      for (int k = i % 7; k > 0; --k) coir::yield();
      t.request_stop();
      t.get();
      unlocker.get();
      ASSERT_TRUE(m.try_lock()) << i;
      m.unlock();
    }
    EXPECT_EQ(had, rounds);
  });
}

TEST_P(AsyncMutex, ATimedOneToo) {
  run([] {
    coir::timed_mutex m;
    coir::spawn([&]() -> async<void> {
      co_await m.async_lock();
      EXPECT_FALSE(m.try_lock());
      m.unlock();
    }).get();
  });
}

TEST_P(AsyncMutex, ADeadlockSaysWhatItWaitsOn) {
  coir_test::expect_throw_message<coir::deadlock>(
      [&] {
        coir::mutex m;
        run([&] {
          coir::go([&]() -> async<void> {
            co_await m.async_lock();
            co_await m.async_lock();
          });
        });
      },
      ": mutex lock 0x");
}

TEST_P(AsyncMutex, ALockThatIsAwaitedAgainIsALogicError) {
  for (const bool waits : {false, true}) {
    run([waits] {
      coir::mutex m;
      if (waits) m.lock();
      coir::task<void> t = coir::spawn([&]() -> async<void> {
        auto lock = m.async_lock();
        co_await lock;
        m.unlock();
        co_await coir::async_sleep(std::chrono::microseconds(1));
        bool refused = false;
        try {
          co_await lock;
        } catch (const std::logic_error&) {
          refused = true;
        }
        EXPECT_TRUE(refused);
      });
      if (waits) {
        until_blocked(t);
        m.unlock();
      }
      t.get();
      EXPECT_TRUE(m.try_lock());
      m.unlock();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Processors, AsyncMutex, coir_test::processors, coir_test::processors_name);

}  // namespace
