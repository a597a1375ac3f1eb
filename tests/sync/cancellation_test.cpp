// What every blocking call owes a cancelled fiber: pending at its entry it is seen at once; coming after the grant, at
// the next call, the grant being kept; and what need not block does not look.
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <coir/coir.hpp>

#include "coir_test.hpp"

namespace {

using coir_test::until_blocked;
using namespace std::chrono_literals;

class Cancellation : public coir_test::with_processors {};

void block_forever() { coir::make_chan<void>().recv(); }

/// A way to block, and the act that grants it; none: only its time ends it.
struct way {
  std::string name;
  std::function<void()> block;
  std::function<void()> grant;
};

struct waited_for {
  coir::mutex lock;
  coir::condition_variable changed;
};

/// All cancellation points, blocked at first. What they use lives as long as they do.
std::vector<way> ways() {
  const auto ch = coir::make_chan<int>();
  const auto out = coir::make_chan<int>();
  const auto picked = coir::make_chan<int>();
  const auto closed = coir::make_chan<void>();
  const auto permits = std::make_shared<coir::semaphore>(1);
  permits->acquire();
  const auto group = std::make_shared<coir::wait_group>();
  group->add(1);
  const auto count = std::make_shared<coir::latch>(1);
  const auto timed = coir::make_chan<int>();
  const auto condition = std::make_shared<waited_for>();
  const auto phases = std::make_shared<coir::barrier<>>(100);
  const auto opened = std::make_shared<coir::once>();
  const auto flights = std::make_shared<coir::single_flight<int, int>>();
  const auto led = coir::make_chan<void>();
  const auto leader =
      std::make_shared<coir::task<void>>(coir::spawn([opened, led] { coir::call_once(*opened, [&] { led.recv(); }); }));
  const auto flown = coir::make_chan<void>();
  const auto pilot = std::make_shared<coir::task<void>>(coir::spawn([flights, flown] {
    flights->run(1, [&] {
      flown.recv();
      return 1;
    });
  }));
  until_blocked(*leader);
  until_blocked(*pilot);
  const auto finish = coir::make_chan<void>();
  const auto joined = std::make_shared<coir::task<void>>(coir::spawn([finish] { finish.recv(); }));
  return {
      {"receive", [ch] { EXPECT_EQ(ch.recv(), 1); }, [ch] { ch.send(1); }},
      {"send", [out] { out.send(2); }, [out] { EXPECT_EQ(out.recv(), 2); }},
      {"select", [picked, ch] { EXPECT_EQ(coir::select(coir::on_recv(picked), coir::on_send(ch, 5)), 0U); },
       [picked] { picked.send(3); }},
      {"close", [closed] { EXPECT_FALSE(closed.recv()); }, [closed] { closed.close(); }},
      {"semaphore", [permits] { permits->acquire(); }, [permits] { permits->release(); }},
      {"wait_group", [group] { group->wait(); }, [group] { group->done(); }},
      {"latch", [count] { count->wait(); }, [count] { count->count_down(); }},
      {"timed receive",
       [timed] {
         int value = 0;
         EXPECT_EQ(timed.recv_for(value, 10h), coir::recv_status::done);
       },
       [timed] { timed.send(4); }},
      {"condition_variable",
       [condition] {
         std::unique_lock lock(condition->lock);
         condition->changed.wait(lock);
       },
       [condition] { condition->changed.notify_one(); }},
      {"barrier", [phases] { phases->arrive_and_wait(); }, [phases] { static_cast<void>(phases->arrive(99)); }},
      {"once", [opened] { coir::call_once(*opened, [] { ADD_FAILURE() << "done twice"; }); },
       [leader, led] {
         led.send();
         coir_test::until([&] { return leader->ready(); });
       }},
      {"single_flight", [flights] { EXPECT_EQ(flights->run(1, [] { return 2; }), 1); },
       [pilot, flown] {
         flown.send();
         coir_test::until([&] { return pilot->ready(); });
       }},
      {"task", [joined] { joined->wait(); },
       [joined, finish] {
         finish.send();
         coir_test::until([&] { return joined->ready(); });
       }},
      {"sleep", [] { coir::sleep_for(10h); }, nullptr},
      {"nil channel", [] { coir::chan<int>().recv(); }, nullptr},
      {"empty select", [] { coir::select(); }, nullptr},
  };
}

/// What a mutex and its like can be waited for with. The holder is another fiber than those that wait.
struct taken {
  coir::mutex plain;
  coir::shared_mutex shared, shared_by_readers;
  coir::timed_mutex timed;

  taken() {
    plain.lock();
    timed.lock();
    shared.lock();
    shared_by_readers.lock_shared();
  }
};

/// The ways to wait for a lock, which is no cancellation point.
std::vector<way> locks() {
  const auto locks = std::make_shared<taken>();
  return {
      {"mutex",
       [locks] {
         locks->plain.lock();
         locks->plain.unlock();
       },
       [locks] { locks->plain.unlock(); }},
      {"shared_mutex",
       [locks] {
         locks->shared_by_readers.lock();
         locks->shared_by_readers.unlock();
       },
       [locks] { locks->shared_by_readers.unlock_shared(); }},
      {"shared_mutex, shared",
       [locks] {
         locks->shared.lock_shared();
         locks->shared.unlock_shared();
       },
       [locks] { locks->shared.unlock(); }},
      {"timed_mutex",
       [locks] {
         EXPECT_TRUE(locks->timed.try_lock_for(10h));
         locks->timed.unlock();
       },
       [locks] { locks->timed.unlock(); }},
  };
}

/// Blocks in a cancelled fiber as in any other one, until it is granted.
TEST_P(Cancellation, DoesNotEndAWaitForALock) {
  run([] {
    for (const bool before : {false, true}) {
      for (const way& w : locks()) {
        auto go_on = coir::make_chan<void>(1);
        bool locked = false;
        coir::task<void> t = coir::spawn([&] {
          {
            const coir::uncancellable guard;
            go_on.recv();
          }
          w.block();
          locked = true;
          EXPECT_THROW(block_forever(), coir::cancelled) << w.name;
        });
        if (before) t.request_stop();
        go_on.send();
        until_blocked(t);
        if (!before) t.request_stop();
        for (int i = 0; i < 5; ++i) coir::yield();
        EXPECT_EQ(t.status(), coir::task_status::blocked) << w.name;
        w.grant();
        t.get();
        EXPECT_TRUE(locked) << w.name;
      }
    }
  });
}

TEST_P(Cancellation, ByATimeoutDoesNotEndAWaitForALock) {
  run([] {
    for (const way& w : locks()) {
      bool locked = false;
      coir::task<void> t = coir::spawn([&] {
        EXPECT_THROW(coir::timeout(1us,
                                   [&] {
                                     w.block();
                                     locked = true;
                                     block_forever();
                                   }),
                     coir::timed_out)
            << w.name;
      });
      coir::sleep_for(1ms);
      EXPECT_FALSE(locked) << w.name;
      w.grant();
      t.get();
      EXPECT_TRUE(locked) << w.name;
    }
  });
}

TEST_P(Cancellation, DestructorsOfACancelledFiberMayLockWhatOthersHold) {
  run([] {
    coir::mutex m;
    coir::shared_mutex s;
    int closed = 0;
    for (int i = 0; i < coir_test::scaled(200); ++i) {
      m.lock();
      s.lock();
      coir::task<void> t = coir::spawn([&] {
        struct connection {
          coir::mutex& m;
          coir::shared_mutex& s;
          int& closed;
          ~connection() {
            const std::scoped_lock all(m, s);
            ++closed;
          }
        } const open{m, s, closed};
        block_forever();
      });
      until_blocked(t);
      t.request_stop();
      for (int k = i % 4; k > 0; --k) coir::yield();
      s.unlock();
      m.unlock();
      EXPECT_THROW(t.get(), coir::task_cancelled);
    }
    EXPECT_EQ(closed, coir_test::scaled(200));
  });
}

TEST_P(Cancellation, PendingAtTheEntryIsSeenAtOnce) {
  run([] {
    for (const way& w : ways()) {
      auto stopped = coir::make_chan<void>(1);
      coir::task<void> t = coir::spawn([&] {
        {
          const coir::uncancellable guard;
          stopped.recv();
        }
        EXPECT_THROW(w.block(), coir::cancelled) << w.name;
        EXPECT_THROW(w.block(), coir::cancelled) << w.name;
      });
      t.request_stop();
      stopped.send();
      t.get();
    }
  });
}

TEST_P(Cancellation, OfAConditionWaitIsThrownWithTheLockHeldAgain) {
  run([] {
    coir::mutex m;
    coir::condition_variable changed;
    coir::task<void> t = coir::spawn([&] {
      std::unique_lock held(m);
      try {
        changed.wait(held);
      } catch (const coir::cancelled&) {
        EXPECT_TRUE(held.owns_lock());
        EXPECT_FALSE(m.try_lock());
        throw;
      }
    });
    until_blocked(t);
    m.lock();
    t.request_stop();
    for (int i = 0; i < 5; ++i) coir::yield();
    EXPECT_FALSE(t.ready());  // it waits for the lock
    m.unlock();
    EXPECT_THROW(t.get(), coir::task_cancelled);
    EXPECT_TRUE(m.try_lock());
    m.unlock();
  });
}

TEST_P(Cancellation, EndsTheCallUnderWay) {
  run([] {
    for (const way& w : ways()) {
      coir::task<void> t = coir::spawn([&] { w.block(); });
      until_blocked(t);
      t.request_stop();
      EXPECT_THROW(t.get(), coir::task_cancelled) << w.name;
    }
  });
}

TEST_P(Cancellation, AfterTheGrantIsSeenAtTheNextCall) {
  run([] {
    for (const way& w : ways()) {
      if (!w.grant) continue;
      bool granted = false;
      coir::task<void> t = coir::spawn([&] {
        w.block();
        granted = true;
        EXPECT_THROW(block_forever(), coir::cancelled) << w.name;
      });
      until_blocked(t);
      w.grant();
      t.request_stop();
      t.get();
      EXPECT_TRUE(granted) << w.name;
    }
  });
}

/// Of the timed calls that would block, those whose time is over do not.
TEST_P(Cancellation, ATimedCallWhoseTimeIsOverDoesNotLook) {
  run([] {
    const auto go_on = coir::make_chan<void>(1);
    const auto nobody = coir::make_chan<int>();
    coir::timed_mutex taken;
    taken.lock();
    coir::shared_mutex written;
    written.lock();
    coir::semaphore one(1);
    one.acquire();
    coir::task<void> endless = coir::spawn([] { block_forever(); });
    coir::task<void> t = coir::spawn([&] {
      {
        const coir::uncancellable guard;
        go_on.recv();
      }
      const auto past = std::chrono::steady_clock::now() - 1s;
      int value = 5;
      EXPECT_FALSE(nobody.send_for(value, 0s));
      EXPECT_EQ(nobody.recv_until(value, past), coir::recv_status::timed_out);
      EXPECT_EQ(coir::select(coir::on_recv(nobody), coir::on_timeout(-1s)), 1U);
      EXPECT_FALSE(taken.try_lock_for(0s));
      EXPECT_FALSE(written.try_lock_for(0s));
      EXPECT_FALSE(written.try_lock_shared_until(past));
      EXPECT_FALSE(one.acquire_for(1, 0s));
      EXPECT_FALSE(one.acquire_until(past));
      EXPECT_FALSE(endless.wait_for(0s));
      coir::sleep_until(past);
      coir::mutex m;
      coir::condition_variable changed;
      std::unique_lock held(m);
      EXPECT_EQ(changed.wait_for(held, 0s), std::cv_status::timeout);
      EXPECT_FALSE(changed.wait_until(held, past, [] { return false; }));
      EXPECT_THROW(changed.wait_for(held, 1h), coir::cancelled);
      EXPECT_TRUE(held.owns_lock());
      EXPECT_THROW(one.acquire_for(1, 1h), coir::cancelled);
    });
    t.request_stop();
    go_on.send();
    t.get();
    endless.request_stop();
    EXPECT_THROW(endless.get(), coir::task_cancelled);
    taken.unlock();
    written.unlock();
    one.release();
  });
}

TEST_P(Cancellation, WhatNeedNotBlockDoesNotLook) {
  run([] {
    auto go_on = coir::make_chan<void>(1);
    coir::task<int> t = coir::spawn([&] {
      {
        const coir::uncancellable guard;
        go_on.recv();
      }
      auto ch = coir::make_chan<int>(1);
      coir::mutex m;
      coir::semaphore s(1);
      coir::yield();
      ch.send(1);
      const std::scoped_lock held(m);
      s.acquire();
      coir::select(coir::on_recv(coir::make_chan<int>()), coir::otherwise([] {}));
      coir::task_group g;
      g.wait();
      return *ch.recv();
    });
    t.request_stop();
    go_on.send();
    EXPECT_EQ(t.get(), 1);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, Cancellation, coir_test::processors, coir_test::processors_name);

}  // namespace
