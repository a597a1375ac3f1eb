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

/// What a mutex and its like can be waited for with. The holder is another fiber than those that wait.
struct taken {
  coir::mutex plain;
  coir::shared_mutex shared, shared_by_readers;
  coir::mutex of_condition;
  coir::condition_variable changed;

  taken() {
    plain.lock();
    shared.lock();
    shared_by_readers.lock_shared();
  }
};

/// All of them blocked at first. What they use lives as long as they do.
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
  const auto locks = std::make_shared<taken>();
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
      {"condition_variable",
       [locks] {
         std::unique_lock lock(locks->of_condition);
         locks->changed.wait(lock);
       },
       [locks] { locks->changed.notify_one(); }},
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

TEST_P(Cancellation, EndsTheCallUnderWay) {
  run([] {
    for (const way& w : ways()) {
      coir::task<void> t = coir::spawn([&] { w.block(); });
      until_blocked(t);
      t.request_stop();
      EXPECT_THROW(t.get(), coir::cancelled) << w.name;
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
    EXPECT_THROW(endless.get(), coir::cancelled);
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
