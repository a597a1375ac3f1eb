// The parking protocol under fire: a fiber that is claimed the moment it can be, while it is still switching out, is
// resumed once and not before it has left; exactly one of several claimers wins.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include <coir/detail/park.hpp>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using coir_test::scaled;
using runtime_test::gate;
using namespace std::chrono_literals;
using namespace coir::detail;

class Park : public runtime_test::leak_checked {};

/// A place for one sleeper, that wakers hammer on: they claim whoever has just parked, as soon as the lock lets them.
struct hot_seat {
  spin_lock lock;
  wait_queue queue;
  int grants = 0;  // guarded by lock

  /// True if it was granted, false if the time was over or the fiber cancelled.
  bool sit(deadline until = no_deadline) {
    waiter& self = this_waiter();
    lock.lock();
    if (!begin_wait(self)) {
      lock.unlock();
      throw_cancelled();
    }
    wait_node node;
    node.who = &self;
    queue.push_back(node);
    const wake how = park(self, lock, {"hot seat", this}, until);
    if (how == wake::fired) return true;
    lock.lock();
    queue.remove(node);
    lock.unlock();
    if (how == wake::cancelled) throw_cancelled();
    return false;
  }

  bool grant() {
    lock.lock();
    wait_node* n = queue.claim_front();
    if (n == nullptr) {
      lock.unlock();
      return false;
    }
    ++grants;
    lock.unlock();
    unpark(*n->who);
    return true;
  }
};

/// Counts who is between its two calls: one, or a fiber runs twice at once.
class alone {
 public:
  void enter() { EXPECT_EQ(inside_.exchange(1), 0) << "resumed while it still ran"; }
  void leave() { EXPECT_EQ(inside_.exchange(0), 1) << "resumed twice"; }

 private:
  std::atomic<int> inside_{0};
};

TEST_P(Park, AFiberWokenByAThreadWhileItSwitchesOutIsResumedOnce) {
  coir::runtime rt{opts()};
  hot_seat seat;
  alone check;
  const int rounds = scaled(50'000);
  std::atomic<bool> done{false};
  coir::task<int> sleeper = rt.spawn([&] {
    int resumed = 0;
    check.enter();
    for (int i = 0; i < rounds; ++i) {
      check.leave();
      EXPECT_TRUE(seat.sit());
      check.enter();
      ++resumed;
    }
    check.leave();
    done = true;
    return resumed;
  });
  while (!done)
    if (!seat.grant()) std::this_thread::yield();
  EXPECT_EQ(sleeper.get(), rounds);
  EXPECT_EQ(seat.grants, rounds);
}

TEST_P(Park, FibersWokenByFibersWhileTheySwitchOutAreResumedOnce) {
  run([&] {
    constexpr int seats = 4;
    hot_seat all[seats];
    constexpr int rounds = scaled(5'000);
    std::atomic<int> left{seats};
    std::vector<coir::task<int>> sleepers;
    for (hot_seat& seat : all) {
      sleepers.push_back(coir::spawn([&seat, &left] {
        alone check;
        int resumed = 0;
        check.enter();
        for (int i = 0; i < rounds; ++i) {
          check.leave();
          EXPECT_TRUE(seat.sit());
          check.enter();
          ++resumed;
        }
        check.leave();
        --left;
        return resumed;
      }));
    }
    std::vector<coir::task<void>> wakers;
    for (int k = 0; k < 3; ++k) {
      wakers.push_back(coir::spawn([&] {
        while (left != 0) {
          for (hot_seat& seat : all) seat.grant();
          coir::yield();
        }
      }));
    }
    for (coir::task<int>& s : sleepers) EXPECT_EQ(s.get(), rounds);
    for (coir::task<void>& w : wakers) w.get();
    for (hot_seat& seat : all) EXPECT_EQ(seat.grants, rounds);
  });
}

TEST_P(Park, AGrantATimeoutAndACancellationHaveOneWinner) {
  run([&] {
    hot_seat seat;
    int granted = 0, timed_out = 0, cancelled = 0;
    const int rounds = scaled(5'000);
    for (int i = 0; i < rounds; ++i) {
      coir::task<void> sleeper = coir::spawn([&] {
        try {
          if (seat.sit(deadline_after(std::chrono::microseconds(1 + i % 30))))
            ++granted;
          else
            ++timed_out;
        } catch (const coir::cancelled&) {
          ++cancelled;
        }
      });
      coir::task<void> waker = coir::spawn([&] {
        for (int k = i % 7; k > 0; --k) coir::yield();
        seat.grant();
      });
      for (int k = i % 5; k > 0; --k) coir::yield();
      if (i % 2 == 0) sleeper.request_stop();
      sleeper.get();
      waker.get();
      ASSERT_TRUE(seat.queue.empty());
    }
    EXPECT_EQ(granted + timed_out + cancelled, rounds);
    EXPECT_EQ(granted, seat.grants);  // a grant that was given was had
  });
}

TEST_P(Park, APlainThreadIsGrantedOrTimesOutNeverBoth) {
  coir::runtime rt{opts()};
  hot_seat seat;
  std::atomic<bool> done{false};
  coir::task<void> waker = rt.spawn([&] {
    while (!done) {
      seat.grant();
      coir::sleep_for(20us);
    }
  });
  int granted = 0, timed_out = 0;
  const int rounds = scaled(2'000);
  for (int i = 0; i < rounds; ++i) {
    if (seat.sit(deadline_after(std::chrono::microseconds(i % 150))))
      ++granted;
    else
      ++timed_out;
    ASSERT_TRUE(seat.queue.empty());
  }
  done = true;
  waker.get();
  EXPECT_EQ(granted + timed_out, rounds);
  EXPECT_EQ(granted, seat.grants);
}

TEST_P(Park, TheFrontOfAQueueIsServedFirstAndClaimedNodesAreSkipped) {
  run([&] {
    hot_seat seat;
    std::vector<int> order;
    std::vector<coir::task<void>> sleepers;
    for (int i = 0; i < 6; ++i) {
      sleepers.push_back(coir::spawn([&, i] {
        if (seat.sit()) order.push_back(i);
      }));
      coir_test::until_blocked(sleepers.back());
    }
    sleepers[0].request_stop();
    sleepers[3].request_stop();
    for (const int i : {1, 2, 4, 5}) {
      EXPECT_TRUE(seat.grant());
      sleepers[static_cast<std::size_t>(i)].get();
    }
    EXPECT_FALSE(seat.grant());
    EXPECT_EQ(order, (std::vector<int>{1, 2, 4, 5}));
  });
}

TEST_P(Park, ForeverEndsByCancellationAlone) {
  run([] {
    coir::task<void> t = coir::spawn([] { park_forever({"nothing"}); });
    coir_test::until_blocked(t);
    t.request_stop();
    EXPECT_THROW(t.get(), coir::task_cancelled);
  });
}

TEST_P(Park, AWaitThatWasTakenBackLeavesTheFiberAsItWas) {
  run([] {
    waiter& self = this_waiter();
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(begin_wait(self));
      abandon_wait(self);
    }
    gate door;
    coir::go([&] { door.open(); });
    door.pass();
  });
}

TEST_P(Park, RandomBitsAreNotTheSameAgain) {
  const auto differ = [] {
    const std::uint64_t a = random_bits(), b = random_bits(), c = random_bits();
    EXPECT_TRUE(a != b && b != c && a != c);
  };
  differ();
  run(differ);
}

TEST(ClampedNanoseconds, NeverOverflowsAndRoundsUp) {
  using std::chrono::duration;
  static_assert(clamped_nanoseconds(std::chrono::hours::max()) == std::numeric_limits<std::int64_t>::max());
  static_assert(clamped_nanoseconds(std::chrono::hours::min()) == std::numeric_limits<std::int64_t>::min());
  static_assert(clamped_nanoseconds(5us) == 5000);
  static_assert(clamped_nanoseconds(std::chrono::nanoseconds::max()) == std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(clamped_nanoseconds(duration<double, std::nano>(1.2)), 2);
  EXPECT_EQ(clamped_nanoseconds(duration<double, std::nano>(-1.2)), -1);
  EXPECT_EQ(clamped_nanoseconds(duration<double>(std::numeric_limits<double>::quiet_NaN())), 0);
  EXPECT_EQ(clamped_nanoseconds(duration<double>(1e300)), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(clamped_nanoseconds(duration<std::int64_t, std::pico>(1)), 1);
  EXPECT_EQ(clamped_nanoseconds(duration<std::int64_t, std::pico>(-1)), 0);
  EXPECT_EQ(clamped_nanoseconds(duration<std::int64_t, std::pico>::max()), 9'223'372'036'854'776);
  EXPECT_EQ(clamped_nanoseconds(duration<double>(0.1)), 100'000'000);
  EXPECT_EQ(clamped_nanoseconds(duration<float, std::milli>(0.5F)), 500'000);
  static_assert(clamped_nanoseconds(duration<double, std::tera>(1)) == INT64_MAX);
  static_assert(clamped_nanoseconds(duration<double, std::ratio<1, 10000000019>>(10000000019.0)) == 1'000'000'000);
  // Periods that no whole number of nanoseconds makes up.
  using samples = duration<std::int64_t, std::ratio<1, 44100>>;
  static_assert(clamped_nanoseconds(samples(44100)) == 1'000'000'000);
  static_assert(clamped_nanoseconds(samples(1)) == 22676);
  static_assert(clamped_nanoseconds(samples(-1)) == -22675);
  static_assert(clamped_nanoseconds(samples(1'000'000'000'000)) == 22'675'736'961'451'248);
  static_assert(clamped_nanoseconds(samples::max()) == std::numeric_limits<std::int64_t>::max());
  static_assert(clamped_nanoseconds(samples::min()) == std::numeric_limits<std::int64_t>::min());
  static_assert(clamped_nanoseconds(duration<std::int64_t, std::ratio<INTMAX_MAX>>(1)) == INT64_MAX);
  static_assert(clamped_nanoseconds(duration<std::int64_t, std::ratio<1, INTMAX_MAX>>(INTMAX_MAX)) == 1'000'000'000);
  static_assert(clamped_nanoseconds(duration<std::uint64_t, std::nano>(UINT64_MAX)) == INT64_MAX);
  static_assert(clamped_nanoseconds(duration<std::uint64_t, std::pico>(UINT64_MAX)) == 18'446'744'073'709'552);
  static_assert(clamped_nanoseconds(duration<unsigned char, std::milli>(200)) == 200'000'000);
}

TEST(DeadlineAfter, IsBelowNoDeadlineHoweverLong) {
  EXPECT_LT(deadline_after(std::chrono::hours::max()), no_deadline);
  EXPECT_LT(deadline_at(std::chrono::steady_clock::time_point::max()), no_deadline);
  EXPECT_LE(deadline_after(0s), now());
  EXPECT_LE(deadline_after(-5s), now());
  EXPECT_LE(deadline_at(std::chrono::steady_clock::time_point::min()), now());
}

INSTANTIATE_TEST_SUITE_P(Processors, Park, coir_test::processors, coir_test::processors_name);

}  // namespace
