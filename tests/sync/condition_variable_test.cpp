// coir::condition_variable: who is woken, and that the lock is held again whatever ended the wait.
#include <coir/condition_variable.hpp>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <vector>

#include <coir/mutex.hpp>
#include <coir/shared_mutex.hpp>
#include <coir/timeout.hpp>

#include "actor.hpp"

namespace {

using coir_test::scaled;
using coir_test::until;
using std::chrono::steady_clock;
using sync_test::actor;
using sync_test::both_kinds;
using sync_test::kind;
using namespace std::chrono_literals;

class condition_variable_test : public coir_test::with_processors {};

TEST_P(condition_variable_test, NotifyOneWakesExactlyOneAndTheOldestAmongFibersAndThreads) {
  run([] {
    coir::mutex m;
    coir::condition_variable changed;
    std::vector<int> order;
    std::vector<actor> waiters;
    for (int i = 0; i < 6; ++i) {
      waiters.emplace_back(i % 2 == 0 ? kind::fiber : kind::thread, [&, i] {
        std::unique_lock lock(m);
        changed.wait(lock);
        EXPECT_TRUE(lock.owns_lock());
        order.push_back(i);
      });
      waiters.back().until_blocked();
    }
    for (std::size_t n = 1; n <= waiters.size(); ++n) {
      changed.notify_one();
      waiters[n - 1].join();
      const std::scoped_lock lock(m);
      EXPECT_EQ(order.size(), n);
    }
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  });
}

TEST_P(condition_variable_test, NotifyAllWakesEachOnce) {
  run([] {
    for (const kind k : both_kinds) {
      coir::mutex m;
      coir::condition_variable changed;
      std::atomic<int> woken{0};
      std::vector<actor> waiters;
      for (int i = 0; i < 5; ++i) {
        waiters.emplace_back(k, [&] {
          std::unique_lock lock(m);
          changed.wait(lock);
          ++woken;
        });
        waiters.back().until_blocked();
      }
      changed.notify_all();
      for (actor& w : waiters) w.join();
      EXPECT_EQ(woken, 5) << k;
      changed.notify_all();
    }
  });
}

TEST_P(condition_variable_test, ALaterWaiterCannotTakeAnEarlierOnesWake) {
  run([] {
    const int rounds = scaled(2'000);
    for (int r = 0; r < rounds; ++r) {
      coir::mutex m;
      coir::condition_variable changed;
      std::atomic<bool> later_woken{false};
      actor early(kind::fiber, [&] {
        std::unique_lock lock(m);
        changed.wait(lock);
      });
      early.until_blocked();
      std::unique_lock lock(m);
      changed.notify_one();  // early cannot return yet
      actor later(kind::fiber, [&] {
        std::unique_lock own(m);
        changed.wait(own);
        later_woken = true;
      });
      lock.unlock();
      early.join();
      later.until_blocked();
      EXPECT_FALSE(later_woken);
      changed.notify_one();
      later.join();
    }
  });
}

TEST_P(condition_variable_test, NoNotificationIsLostBetweenUnlockAndSleep) {
  run([] {
    for (const kind k : both_kinds) {
      coir::mutex m;
      coir::condition_variable ping, pong;
      bool turn = false;
      const int rounds = k == kind::fiber ? scaled(20'000) : scaled(2'000);
      actor other(k, [&] {
        for (int r = 0; r < rounds; ++r) {
          std::unique_lock lock(m);
          ping.wait(lock, [&] { return turn; });
          turn = false;
          lock.unlock();
          pong.notify_one();
        }
      });
      for (int r = 0; r < rounds; ++r) {
        {
          const std::scoped_lock lock(m);
          turn = true;
        }
        ping.notify_one();
        std::unique_lock lock(m);
        pong.wait(lock, [&] { return !turn; });
      }
      other.join();
    }
  });
}

TEST_P(condition_variable_test, TimedWaitsTimeOutNeverEarlyWithTheLockHeldAgain) {
  run([] {
    for (const kind k : both_kinds) {
      actor(k, [k] {
        coir::mutex m;
        coir::condition_variable never;
        std::unique_lock lock(m);
        const auto start = steady_clock::now();
        EXPECT_EQ(never.wait_for(lock, 2ms), std::cv_status::timeout) << k;
        EXPECT_GE(steady_clock::now() - start, 2ms);
        EXPECT_FALSE(m.try_lock());
        EXPECT_EQ(never.wait_until(lock, steady_clock::now() - 1s), std::cv_status::timeout);
        EXPECT_EQ(never.wait_until(lock, std::chrono::system_clock::now() + 1ms), std::cv_status::timeout);
        EXPECT_FALSE(never.wait_for(lock, 1ms, [] { return false; }));
        EXPECT_TRUE(never.wait_for(lock, -1ms, [] { return true; }));
        EXPECT_FALSE(m.try_lock());
        lock.unlock();
        EXPECT_TRUE(m.try_lock());
        m.unlock();
      }).join();
    }
  });
}

TEST_P(condition_variable_test, ATimedWaitThatIsNotifiedSaysSo) {
  run([] {
    for (const kind k : both_kinds) {
      coir::mutex m;
      coir::condition_variable changed;
      actor waiter(k, [&] {
        std::unique_lock lock(m);
        EXPECT_EQ(changed.wait_for(lock, 1h), std::cv_status::no_timeout) << k;
      });
      waiter.until_blocked();
      changed.notify_one();
      waiter.join();
    }
  });
}

TEST_P(condition_variable_test, ACancelledWaitThrowsWithTheLockHeldAgain) {
  run([] {
    coir::mutex m;
    coir::condition_variable changed;
    bool held = false;
    actor waiter(kind::fiber, [&] {
      std::unique_lock lock(m);
      try {
        changed.wait(lock);
      } catch (const coir::cancelled&) {
        held = lock.owns_lock() && !m.try_lock();
        throw;
      }
    });
    waiter.until_blocked();
    m.lock();
    waiter.cancel();
    for (int i = 0; i < 10; ++i) coir::yield();
    EXPECT_FALSE(waiter.ended()) << "it must wait for the lock, though cancelled";
    m.unlock();
    EXPECT_THROW(waiter.join(), coir::task_cancelled);
    EXPECT_TRUE(held);
    EXPECT_TRUE(m.try_lock());
    m.unlock();
  });
}

TEST_P(condition_variable_test, ANotificationThatRacesATimeoutOrACancellationGoesToSomebody) {
  run([] {
    const int rounds = scaled(1'000);
    for (int r = 0; r < rounds; ++r) {
      coir::mutex m;
      coir::condition_variable changed;
      std::atomic<int> notified{0};
      int waiting = 0;  // under the mutex, as whoever waits has it until it is queued
      const auto when = steady_clock::now() + std::chrono::microseconds(20 + r % 60);
      actor timed(r % 2 == 0 ? kind::fiber : kind::thread, [&] {
        std::unique_lock lock(m);
        if (changed.wait_until(lock, when) == std::cv_status::no_timeout) ++notified;
      });
      actor victim(kind::fiber, [&] {
        std::unique_lock lock(m);
        ++waiting;
        changed.wait(lock);
        ++notified;
      });
      actor patient(kind::fiber, [&] {
        std::unique_lock lock(m);
        ++waiting;
        changed.wait(lock);
        ++notified;
      });
      until([&] {
        const std::lock_guard lock(m);
        return waiting == 2;
      });
      victim.until_blocked();
      patient.until_blocked();
      until([&] { return steady_clock::now() >= when; });
      if (r % 3 == 0) victim.cancel();
      changed.notify_one();
      if (r % 3 == 1) victim.cancel();
      until([&] { return notified == 1; });
      // Whoever still waits: patient for certain unless it was the one, timed and victim perhaps.
      until([&] {
        changed.notify_all();
        return timed.ended() && victim.ended() && patient.ended();
      });
      timed.join();
      patient.join();
      try {
        victim.join();
      } catch (const coir::task_cancelled&) {
      }
    }
  });
}

TEST_P(condition_variable_test, AStopRequestEndsAWait) {
  run([] {
    for (const kind k : both_kinds) {
      coir::mutex m;
      coir::condition_variable changed;
      std::stop_source stop;
      actor waiter(k, [&] {
        std::unique_lock lock(m);
        EXPECT_FALSE(changed.wait(lock, stop.get_token(), [] { return false; })) << k;
        EXPECT_TRUE(lock.owns_lock());
        EXPECT_TRUE(changed.wait(lock, stop.get_token(), [] { return true; }));
        EXPECT_FALSE(changed.wait_for(lock, stop.get_token(), 1h, [] { return false; }));
        EXPECT_FALSE(changed.wait_until(lock, stop.get_token(), steady_clock::now() + 1h, [] { return false; }));
      });
      waiter.until_blocked();
      stop.request_stop();
      waiter.join();
    }
  });
}

TEST_P(condition_variable_test, WithAStopTokenNotificationAndTimeoutWorkAsWell) {
  run([] {
    coir::mutex m;
    coir::condition_variable changed;
    std::stop_source stop;
    bool ready = false;
    actor waiter(kind::fiber, [&] {
      std::unique_lock lock(m);
      EXPECT_TRUE(changed.wait(lock, stop.get_token(), [&] { return ready; }));
      EXPECT_FALSE(changed.wait_for(lock, stop.get_token(), 1ms, [] { return false; }));
    });
    waiter.until_blocked();
    {
      const std::scoped_lock lock(m);
      ready = true;
    }
    changed.notify_one();
    waiter.join();
  });
}

TEST_P(condition_variable_test, AStopRequestAtAnyMomentEndsTheWait) {
  run([] {
    const int rounds = scaled(5'000);
    for (int r = 0; r < rounds; ++r) {
      coir::mutex m;
      coir::condition_variable changed;
      std::stop_source stop;
      actor waiter(r % 16 == 0 ? kind::thread : kind::fiber, [&] {
        std::unique_lock lock(m);
        EXPECT_FALSE(changed.wait(lock, stop.get_token(), [] { return false; }));
      });
      if (r % 3 == 0) coir::yield();
      actor stopper(kind::fiber, [&] { stop.request_stop(); });
      stopper.join();
      waiter.join();
    }
  });
}

// A wait inside an expired timeout is refused after the waiter has been enlisted. `meet` runs on the other side when
// that waiter has unlocked the mutex inside wait(). Both sides are quick, so that they meet.
void while_a_wait_is_refused(int rounds, auto wait, auto meet) {
  const auto spin_until = [](auto come) {
    for (int i = 1; !come(); ++i)
      if (i % 1024 == 0) std::this_thread::yield();  // the other side may want this CPU
  };
  struct round {
    coir::mutex m;
    coir::condition_variable changed;
    std::stop_source stop;
    std::atomic<bool> enlisted{false};
    std::atomic<bool> done{false};
  };
  std::atomic<round*> offered{nullptr};
  actor waiter(kind::thread, [&] {
    for (int i = 0; i < rounds; ++i) {
      round* r = nullptr;
      spin_until([&] { return (r = offered.exchange(nullptr, std::memory_order_acquire)) != nullptr; });
      try {
        coir::timeout(0ns, [&] {
          std::unique_lock lock(r->m);
          r->enlisted.store(true, std::memory_order_relaxed);
          wait(*r, lock);
        });
      } catch (const coir::timed_out&) {
      }
      r->done.store(true, std::memory_order_release);
    }
  });
  for (int i = 0; i < rounds; ++i) {
    auto r = std::make_unique<round>();
    offered.store(r.get(), std::memory_order_release);
    spin_until([&] { return r->enlisted.load(std::memory_order_relaxed); });
    {
      const std::scoped_lock lock(r->m);
    }
    for (int k = 0; k < i % 64; ++k) std::atomic_signal_fence(std::memory_order_seq_cst);
    meet(*r);
    spin_until([&] { return r->done.load(std::memory_order_acquire); });
  }
  waiter.join();
}

TEST_P(condition_variable_test, AStopRequestMayComeWhileAWaitIsRefused) {
  run([] {
    while_a_wait_is_refused(
        scaled(20'000), [](auto& r, auto& lock) { r.changed.wait(lock, r.stop.get_token(), [] { return false; }); },
        [](auto& r) { r.stop.request_stop(); });
  });
}

TEST_P(condition_variable_test, MayBeDestroyedOnceAllAreNotifiedThoughAWaitIsRefused) {
  run([] {
    while_a_wait_is_refused(
        scaled(20'000), [](auto& r, auto& lock) { r.changed.wait(lock); },
        [](auto& r) {
          r.changed.notify_all();
          std::destroy_at(&r.changed);
          std::memset(static_cast<void*>(&r.changed), 0xff, sizeof r.changed);  // its lock, too: nobody could take it
          until([&] { return r.done.load(std::memory_order_acquire); });
          std::construct_at(&r.changed);
        });
  });
}

TEST_P(condition_variable_test, MayBeDestroyedOnceAllAreNotified) {
  run([] {
    for (const kind k : both_kinds) {
      const int rounds = k == kind::fiber ? scaled(10'000) : scaled(500);
      for (int r = 0; r < rounds; ++r) {
        coir::mutex m;
        auto changed = std::make_unique<coir::condition_variable>();
        bool enlisted = false;
        actor waiter(k, [&, c = changed.get()] {
          std::unique_lock lock(m);
          enlisted = true;
          c->wait(lock);
        });
        until([&] {
          const std::scoped_lock lock(m);
          return enlisted;  // then it has unlocked m inside wait()
        });
        changed->notify_all();
        changed.reset();
        waiter.join();
      }
    }
  });
}

// The request finds waiters that have been notified, and may not have run since.
TEST_P(condition_variable_test, MayBeDestroyedOnceAllAreNotifiedThoughAStopRequestComesLater) {
  run([] {
    for (const kind k : both_kinds) {
      const int rounds = k == kind::fiber ? scaled(2'000) : scaled(200);
      for (int r = 0; r < rounds; ++r) {
        coir::mutex m;
        alignas(coir::condition_variable) std::byte memory[sizeof(coir::condition_variable)];
        auto* const changed = ::new (memory) coir::condition_variable;
        std::stop_source stop;
        bool enlisted = false;
        bool notified = false;
        actor waiter(k, [&, token = stop.get_token()] {
          std::unique_lock lock(m);
          enlisted = true;
          EXPECT_TRUE(changed->wait(lock, token, [&] { return notified; }));
        });
        until([&] {
          const std::scoped_lock lock(m);
          notified = enlisted;  // then it has unlocked m inside wait()
          return enlisted;
        });
        changed->notify_all();
        std::destroy_at(changed);
        std::memset(memory, 0xff, sizeof memory);  // its lock, too: nobody could take it
        stop.request_stop();
        waiter.join();
      }
    }
  });
}

TEST_P(condition_variable_test, AQueueOfManyProducersAndConsumersLosesNothing) {
  run([] {
    coir::mutex m;
    coir::condition_variable not_empty, not_full;
    std::deque<int> queue;
    const int each = scaled(10'000);
    long sum = 0;
    std::vector<actor> actors;
    for (int i = 0; i < 3; ++i) {
      const kind k = i == 0 ? kind::thread : kind::fiber;
      actors.emplace_back(k, [&] {
        for (int v = 1; v <= each; ++v) {
          std::unique_lock lock(m);
          not_full.wait(lock, [&] { return queue.size() < 4; });
          queue.push_back(v);
          not_empty.notify_one();
        }
      });
      actors.emplace_back(k, [&] {
        for (int n = 0; n < each; ++n) {
          std::unique_lock lock(m);
          not_empty.wait(lock, [&] { return !queue.empty(); });
          sum += queue.front();
          queue.pop_front();
          not_full.notify_one();
        }
      });
    }
    for (actor& a : actors) a.join();
    EXPECT_EQ(sum, 3L * each * (each + 1L) / 2);
  });
}

TEST_P(condition_variable_test, WorksWithOtherLocks) {
  run([] {
    coir::shared_mutex m;
    coir::condition_variable changed;
    bool ready = false;
    actor reader(kind::fiber, [&] {
      std::shared_lock lock(m);
      changed.wait(lock, [&] { return ready; });
      EXPECT_FALSE(m.try_lock());
    });
    reader.until_blocked();
    {
      const std::unique_lock lock(m);
      ready = true;
    }
    changed.notify_all();
    reader.join();
  });
}

TEST_P(condition_variable_test, AWaitWithoutTheLockIsAnErrorAndLeavesNothingBehind) {
  run([] {
    coir::mutex m;
    coir::condition_variable changed;
    std::unique_lock lock(m, std::defer_lock);
    EXPECT_THROW(changed.wait(lock), std::system_error);
    changed.notify_one();  // nobody
    actor waiter(kind::fiber, [&] {
      std::unique_lock own(m);
      changed.wait(own);
    });
    waiter.until_blocked();
    changed.notify_one();
    waiter.join();
  });
}

/// A lock whose unlock is notified and then fails.
struct fragile_lock {
  coir::condition_variable& changed;
  void lock() {}
  void unlock() {
    changed.notify_one();  // the oldest, which is the one that is unlocking
    throw std::runtime_error("no unlock");
  }
};

TEST_P(condition_variable_test, ANotificationOfOneThatDoesNotWaitAfterAllIsPassedOn) {
  run([] {
    coir::condition_variable changed;
    coir::mutex m;
    fragile_lock fragile{changed};
    // Nobody else: the notification is the failing one's, and gone with it.
    EXPECT_THROW(changed.wait(fragile), std::runtime_error);
    struct passing_lock {
      coir::condition_variable& changed;
      coir::mutex& m;
      coir::task<void>& other;
      void lock() {}
      void unlock() {
        other = coir::spawn([this] {
          std::unique_lock held(m);
          changed.wait(held);
        });
        coir_test::until_blocked(other);
        changed.notify_one();
        throw std::runtime_error("no unlock");
      }
    };
    coir::task<void> other;
    passing_lock passing{changed, m, other};
    EXPECT_THROW(changed.wait(passing), std::runtime_error);
    other.get();
  });
}

TEST_P(condition_variable_test, ANotificationOfAllIsNotPassedOn) {
  run([] {
    struct failing_lock {
      coir::condition_variable& changed;
      coir::mutex& m;
      coir::task<void>& late;
      void lock() {}
      void unlock() {
        changed.notify_all();
        late = coir::spawn([this] {
          std::unique_lock held(m);
          changed.wait(held);
        });
        coir_test::until_blocked(late);
        throw std::runtime_error("no unlock");
      }
    };
    coir::condition_variable changed;
    coir::mutex m;
    coir::task<void> late;
    failing_lock failing{changed, m, late};
    EXPECT_THROW(changed.wait(failing), std::runtime_error);
    for (int i = 0; i < 10; ++i) coir::yield();
    EXPECT_EQ(late.status(), coir::task_status::blocked);
    changed.notify_one();
    late.get();
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, condition_variable_test, coir_test::processors, coir_test::processors_name);

}  // namespace
