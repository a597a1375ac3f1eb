// condition_variable::async_wait: coroutines among the fibers that wait for a change.
#include <coir/async.hpp>
#include <coir/condition_variable.hpp>
#include <coir/mutex.hpp>
#include <coir/shared_mutex.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "actor.hpp"
#include "coir_test.hpp"

namespace {

using namespace std::chrono_literals;
using coir::async;
using coir_test::scaled;
using coir_test::until_blocked;
using sync_test::actor;
using sync_test::kind;

class AsyncConditionVariable : public coir_test::with_processors {};

TEST_P(AsyncConditionVariable, TheOneThatHasWaitedLongestIsNotified) {
  run([] {
    coir::mutex m;
    coir::condition_variable c;
    std::vector<int> order;  // guarded by the mutex
    std::vector<coir::task<void>> coroutines;
    std::vector<actor> fibers;
    for (int i = 0; i < 6; ++i) {
      if (i % 2 == 0) {
        coroutines.push_back(coir::spawn([&, i]() -> async<void> {
          co_await m.async_lock();
          std::unique_lock held(m, std::adopt_lock);
          co_await c.async_wait(held);
          EXPECT_TRUE(held.owns_lock());
          order.push_back(i);
        }));
        until_blocked(coroutines.back());
      } else {
        fibers.emplace_back(kind::fiber, [&, i] {
          std::unique_lock held(m);
          c.wait(held);
          order.push_back(i);
        });
        fibers.back().until_blocked();
      }
    }
    for (std::size_t i = 1; i <= 6; ++i) {
      c.notify_one();
      coir_test::until([&] {
        const std::scoped_lock held(m);
        return order.size() == i;
      });
    }
    for (auto& t : coroutines) t.get();
    for (actor& a : fibers) a.join();
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  });
}

TEST_P(AsyncConditionVariable, AllAreNotifiedAndThePredicateIsAskedWithTheLockHeld) {
  run([] {
    coir::mutex m;
    coir::condition_variable c;
    int round = 0;
    std::vector<coir::task<void>> all;
    for (int i = 1; i <= 4; ++i) {
      all.push_back(coir::spawn([&, i]() -> async<void> {
        co_await m.async_lock();
        std::unique_lock held(m, std::adopt_lock);
        co_await c.async_wait(held, [&] {
          EXPECT_TRUE(held.owns_lock());
          return round >= i;
        });
        EXPECT_GE(round, i);
      }));
    }
    for (int i = 1; i <= 4; ++i) {
      {
        const std::scoped_lock held(m);
        round = i;
      }
      c.notify_all();
      all[static_cast<std::size_t>(i - 1)].get();
    }
  });
}

TEST_P(AsyncConditionVariable, ATimeEndsAWaitAndTheLockIsHeldAgain) {
  run([] {
    coir::mutex m;
    coir::condition_variable c;
    coir::spawn([&]() -> async<void> {
      co_await m.async_lock();
      std::unique_lock held(m, std::adopt_lock);
      const std::cv_status how = co_await c.async_wait_for(held, 2ms);
      EXPECT_EQ(how, std::cv_status::timeout);
      EXPECT_TRUE(held.owns_lock());
      EXPECT_FALSE(m.try_lock());
      const bool said = co_await c.async_wait_until(held, std::chrono::steady_clock::now() + 2ms, [] { return false; });
      EXPECT_FALSE(said);
      const bool was = co_await c.async_wait_for(held, 0s, [] { return true; });
      EXPECT_TRUE(was);
    }).get();
    coir::task<std::cv_status> t = coir::spawn([&]() -> async<std::cv_status> {
      co_await m.async_lock();
      std::unique_lock held(m, std::adopt_lock);
      co_return co_await c.async_wait_for(held, 1h);
    });
    until_blocked(t);
    c.notify_one();
    EXPECT_EQ(t.get(), std::cv_status::no_timeout);
  });
}

TEST_P(AsyncConditionVariable, AStopRequestEndsAWait) {
  run([] {
    coir::mutex m;
    coir::condition_variable c;
    std::stop_source stop;
    coir::task<bool> t = coir::spawn([&]() -> async<bool> {
      co_await m.async_lock();
      std::unique_lock held(m, std::adopt_lock);
      const bool said = co_await c.async_wait(held, stop.get_token(), [] { return false; });
      EXPECT_TRUE(held.owns_lock());
      co_return said;
    });
    until_blocked(t);
    stop.request_stop();
    EXPECT_FALSE(t.get());
  });
}

TEST_P(AsyncConditionVariable, OneThatIsCancelledHasLockedAgainBeforeItIsTold) {
  run([] {
    coir::mutex m;
    coir::condition_variable c;
    coir::task<void> t = coir::spawn([&]() -> async<void> {
      co_await m.async_lock();
      std::unique_lock held(m, std::adopt_lock);
      try {
        co_await c.async_wait(held);
      } catch (const coir::cancelled&) {
        EXPECT_TRUE(held.owns_lock());
        EXPECT_FALSE(m.try_lock());
        throw;
      }
    });
    until_blocked(t);
    m.lock();
    t.request_stop();
    for (int i = 0; i < 10; ++i) coir::yield();
    EXPECT_FALSE(t.ready());
    m.unlock();
    EXPECT_THROW(t.get(), coir::task_cancelled);
    EXPECT_TRUE(m.try_lock());
    m.unlock();
  });
}

TEST_P(AsyncConditionVariable, WaitsWithASharedLockAndWithAMutexItself) {
  run([] {
    coir::shared_mutex shared;
    coir::mutex plain;
    coir::condition_variable c;
    coir::task<void> reader = coir::spawn([&]() -> async<void> {
      co_await shared.async_lock_shared();
      std::shared_lock held(shared, std::adopt_lock);
      co_await c.async_wait(held);
      EXPECT_TRUE(held.owns_lock());
    });
    until_blocked(reader);
    coir::task<void> other = coir::spawn([&]() -> async<void> {
      co_await plain.async_lock();
      co_await c.async_wait(plain);
      EXPECT_FALSE(plain.try_lock());
      plain.unlock();
    });
    until_blocked(other);
    c.notify_all();
    reader.get();
    other.get();
    EXPECT_TRUE(shared.try_lock());
    shared.unlock();
  });
}

TEST_P(AsyncConditionVariable, ItemsGoThroughABoundedQueueOnceEach) {
  run([] {
    coir::mutex m;
    coir::condition_variable not_empty, not_full;
    std::deque<int> items;  // guarded by the mutex, as the next
    int in = 0, out = 0;
    std::int64_t sum = 0;
    const int each = scaled(2'000);
    const auto put = [&](int item) {
      items.push_back(item);
      ++in;
      not_empty.notify_one();
    };
    const auto take = [&] {
      sum += items.front();
      items.pop_front();
      ++out;
      not_full.notify_one();
    };
    const auto has_room = [&] { return items.size() < 2; };
    const auto has_item = [&] { return !items.empty(); };
    std::vector<coir::task<void>> all;
    for (int i = 0; i < 2; ++i) {
      all.push_back(coir::spawn([&, i]() -> async<void> {
        for (int k = 0; k < each; ++k) {
          co_await m.async_lock();
          std::unique_lock held(m, std::adopt_lock);
          if ((i + k) % 2 == 0)
            co_await not_full.async_wait(held, has_room);
          else
            for (bool done = false; !done;)
              done = co_await not_full.async_wait_for(held, std::chrono::microseconds(k % 50), has_room);
          put(1);
        }
      }));
      all.push_back(coir::spawn([&] {
        for (int k = 0; k < each; ++k) {
          std::unique_lock held(m);
          not_full.wait(held, has_room);
          put(2);
        }
      }));
      all.push_back(coir::spawn([&, i]() -> async<void> {
        for (int k = 0; k < each; ++k) {
          co_await m.async_lock();
          std::unique_lock held(m, std::adopt_lock);
          if ((i + k) % 2 == 0)
            co_await not_empty.async_wait(held, has_item);
          else
            for (bool done = false; !done;)
              done = co_await not_empty.async_wait_for(held, std::chrono::microseconds(k % 50), has_item);
          take();
        }
      }));
      all.push_back(coir::spawn([&] {
        for (int k = 0; k < each; ++k) {
          std::unique_lock held(m);
          not_empty.wait(held, has_item);
          take();
        }
      }));
    }
    // Some who only wait, and are cancelled; a notification that one of them gets and does not want goes on.
    for (int i = 0; i < scaled(1'000); ++i) {
      coir::task<void> victim = coir::spawn([&]() -> async<void> {
        co_await m.async_lock();
        std::unique_lock held(m, std::adopt_lock);
        co_await not_empty.async_wait(held);
        not_empty.notify_one();
      });
      for (int k = i % 4; k > 0; --k) coir::yield();
      victim.request_stop();
      try {
        victim.get();
      } catch (const coir::task_cancelled&) {
      }
    }
    for (auto& t : all) t.get();
    EXPECT_EQ(in, 4 * each);
    EXPECT_EQ(out, in);
    EXPECT_EQ(sum, 6 * each);
  });
}

TEST_P(AsyncConditionVariable, ADeadlockSaysWhatItWaitsOn) {
  coir_test::expect_throw_message<coir::deadlock>(
      [&] {
        coir::mutex m;
        coir::condition_variable c;
        run([&] {
          coir::go([&]() -> async<void> {
            co_await m.async_lock();
            std::unique_lock held(m, std::adopt_lock);
            co_await c.async_wait(held);
          });
        });
      },
      ": condition_variable wait 0x");
}

INSTANTIATE_TEST_SUITE_P(Processors, AsyncConditionVariable, coir_test::processors, coir_test::processors_name);

}  // namespace
