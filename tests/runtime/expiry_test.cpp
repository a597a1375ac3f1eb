// The reasons word of a waiter, below timeout(): an expiry ends the wait under way and refuses those to come until it
// is taken back; then nothing of it is left. For fibers and plain threads alike.
#include <atomic>
#include <functional>
#include <optional>
#include <thread>

#include <coir/detail/park.hpp>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using namespace coir::detail;
using coir_test::until;
using runtime_test::gate;

class Expiry : public runtime_test::leak_checked {
 protected:
  /// Runs f in a fiber and, after that, in a plain thread.
  void in_both(const std::function<void()>& f) const {
    run([&] { f(); });
    std::thread(f).join();
  }
};

void expire_now(waiter& who) {
  if (expire(who)) unpark(who);
}

TEST_P(Expiry, RefusesWaitsUntilItIsTakenBack) {
  in_both([] {
    gate shut, open;
    open.open();
    waiter& self = this_waiter();
    expire_now(self);
    open.pass();  // need not block, so it does not look
    EXPECT_THROW(shut.pass(), coir::cancelled);
    EXPECT_THROW(shut.pass(), coir::cancelled);
    EXPECT_FALSE(cancelled_for_good(self));
    forget_expiry(self);
    EXPECT_FALSE(shut.pass_for(std::chrono::microseconds(10)));
  });
}

TEST_P(Expiry, IsCounted) {
  in_both([] {
    gate shut;
    waiter& self = this_waiter();
    expire_now(self);
    expire_now(self);
    forget_expiry(self);
    EXPECT_THROW(shut.pass(), coir::cancelled);
    forget_expiry(self);
    EXPECT_FALSE(shut.pass_for(std::chrono::microseconds(10)));
  });
}

TEST_P(Expiry, EndsTheWaitUnderWay) {
  in_both([] {
    gate shut;
    waiter& self = this_waiter();
    std::thread other([&] {
      until([&] { return shut.awaited(); });
      expire_now(self);
    });
    EXPECT_THROW(shut.pass(), coir::cancelled);
    other.join();
    forget_expiry(self);
  });
}

TEST_P(Expiry, WaitsForTheEndOfAnUncancellableSection) {
  in_both([] {
    gate door, shut;
    waiter& self = this_waiter();
    std::thread other([&] {
      until([&] { return door.awaited(); });
      expire_now(self);
      door.open();
    });
    {
      const coir::uncancellable guard;
      door.pass();
      other.join();
      EXPECT_FALSE(shut.pass_for(std::chrono::microseconds(10)));
    }
    EXPECT_THROW(shut.pass(), coir::cancelled);
    forget_expiry(self);
  });
}

TEST_P(Expiry, LeavesACancellationForGoodAlone) {
  run([] {
    gate shut, stopped;
    coir::task<void> t = coir::spawn([&] {
      waiter& self = this_waiter();
      {
        const coir::uncancellable guard;
        stopped.pass();
      }
      expire_now(self);
      forget_expiry(self);
      EXPECT_TRUE(cancelled_for_good(self));
      EXPECT_THROW(shut.pass(), coir::cancelled);
    });
    t.request_stop();
    stopped.open();
    t.get();
  });
}

// A fiber leaves nothing to the next one on its control block.
TEST_P(Expiry, IsNoAffairOfTheNextFiber) {
  run([] {
    for (int i = 0; i < 100; ++i) {
      gate shut;
      coir::task<void> t = coir::spawn([&] { shut.pass(); });
      coir_test::until_blocked(t);
      t.request_stop();
      EXPECT_THROW(t.get(), coir::task_cancelled);
      coir::spawn([] { coir::sleep_for(std::chrono::nanoseconds(1)); }).get();
    }
  });
}

// Whoever races whom: each round ends, by the door or by the expiry, and the next one starts afresh.
TEST_P(Expiry, RacesTheWaitAndItsGrant) {
  coir::runtime rt{opts()};
  const int rounds = coir_test::scaled(20'000);
  gate door;
  spin_lock lock;
  waiter* target = nullptr;  // guarded by lock: whose scope is open
  bool expired = false;
  std::atomic<bool> done{false};
  coir::task<int> sleeper = rt.spawn([&] {
    int expiries = 0;
    for (int i = 0; i < rounds; ++i) {
      waiter& self = this_waiter();
      lock.lock();
      target = &self;
      lock.unlock();
      try {
        door.pass();
      } catch (const coir::cancelled&) {
        ++expiries;
      }
      door.shut();
      lock.lock();
      target = nullptr;
      const bool mine = std::exchange(expired, false);
      lock.unlock();
      if (mine) forget_expiry(self);
      EXPECT_FALSE(cancelled_for_good(self));
    }
    done = true;
    return expiries;
  });
  for (unsigned i = 0; !done; ++i) {
    if (i % 3 == 0) door.open();
    lock.lock();
    waiter* claimed = nullptr;
    if (target != nullptr && !expired) {
      expired = true;
      if (expire(*target)) claimed = target;
    }
    lock.unlock();
    if (claimed != nullptr) unpark(*claimed);
  }
  EXPECT_LE(sleeper.get(), rounds);
}

INSTANTIATE_TEST_SUITE_P(Processors, Expiry, coir_test::processors, coir_test::processors_name);

}  // namespace
