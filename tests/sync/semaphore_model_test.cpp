// The semaphore against its model, at random: many actors with random weights acquire by every means, are cancelled and
// time out at every point, and hand permits over to one another. Whatever happens, the permits out are those that
// acquires have answered for, never more than there are, and in the end all are there.
#include <coir/semaphore.hpp>

#include <random>
#include <vector>

#include "actor.hpp"

namespace {

using coir_test::scaled;
using sync_test::actor;
using sync_test::kind;

constexpr std::int64_t total = 5;

class semaphore_model_test : public coir_test::with_processors {};

/// The permits that are out, as the callers know it.
struct ledger {
  std::atomic<std::int64_t> out{0};
  std::atomic<std::int64_t> grants{0}, refusals{0}, cancellations{0};

  // Noted after the acquire and before the release: so it is at most what is really out.
  void took(std::int64_t n) {
    EXPECT_LE(out += n, total);
    ++grants;
  }
  void gives(std::int64_t n) { EXPECT_GE(out -= n, 0); }
};

void act(coir::semaphore& s, ledger& book, std::uint64_t seed, int steps) {
  std::mt19937_64 random(seed);
  const auto pick = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  const auto linger = [&] {
    if (pick(3) == 0 && coir::this_fiber::is_fiber()) coir::yield();
  };
  for (int i = 0; i < steps; ++i) {
    const std::int64_t n = pick(4) == 0 ? total : 1 + pick(total - 1);
    bool got = false;
    switch (pick(4)) {
      case 0:
        got = s.try_acquire(n);
        break;
      case 1:
        got = s.acquire_for(n, std::chrono::microseconds(pick(50)));
        break;
      default:
        s.acquire(n);
        got = true;
    }
    if (!got) {
      ++book.refusals;
      linger();
      continue;
    }
    book.took(n);
    linger();
    // In one piece or in two.
    const std::int64_t part = pick(static_cast<std::uint64_t>(n + 1));
    book.gives(n);
    s.release(part);
    linger();
    s.release(n - part);
  }
}

TEST_P(semaphore_model_test, PermitsAreNeitherLostNorMadeWhateverIsCancelled) {
  run([] {
    const int rounds = scaled(400);
    ledger book;
    for (int r = 0; r < rounds; ++r) {
      coir::semaphore s(total);
      std::vector<actor> actors;
      for (int i = 0; i < 8; ++i) {
        const auto seed = static_cast<std::uint64_t>(r) * 100 + static_cast<std::uint64_t>(i);
        const kind k = i == 7 && r % 8 == 0 ? kind::thread : kind::fiber;
        actors.emplace_back(k, [&s, &book, seed] {
          try {
            act(s, book, seed, 20);
          } catch (const coir::cancelled&) {
            ++book.cancellations;
          }
        });
      }
      std::mt19937_64 random(static_cast<std::uint64_t>(r));
      for (std::size_t i = 0; i < 7; i += 2) {
        for (std::uint64_t n = random() % 6; n > 0; --n) coir::yield();
        actors[i].cancel();
      }
      for (actor& a : actors) a.join();
      ASSERT_EQ(book.out, 0);
      ASSERT_FALSE(s.locked()) << "somebody is queued still, in round " << r;
      ASSERT_TRUE(s.try_acquire(total)) << "permits lost in round " << r;
      ASSERT_THROW(s.release(total + 1), std::logic_error);
      s.release(total);
      ASSERT_THROW(s.release(1), std::logic_error) << "permits made in round " << r;
    }
    EXPECT_GT(book.grants, 0);
    EXPECT_GT(book.refusals, 0);
    EXPECT_GT(book.cancellations, 0);
  });
}

// One waiter, one event each of grant, timeout and cancellation, all at the same moment: whoever wins, the permits
// agree.
TEST_P(semaphore_model_test, GrantTimeoutAndCancellationAtOnceAgreeOnWhoHasThePermit) {
  run([] {
    const int rounds = scaled(3'000);
    int granted = 0, timed_out = 0, cancelled = 0;
    for (int r = 0; r < rounds; ++r) {
      coir::semaphore s(2);
      s.acquire(2);
      const auto when = std::chrono::steady_clock::now() + std::chrono::microseconds(15 + r % 40);
      std::atomic<bool> started{false};
      actor waiter(kind::fiber, [&] {
        started = true;
        try {
          if (s.acquire_until(2, when)) {
            ++granted;
            s.release(2);
          } else {
            ++timed_out;
          }
        } catch (const coir::cancelled&) {
          ++cancelled;
        }
      });
      std::atomic<bool> now{false};
      actor canceller(r % 64 == 0 ? kind::thread : kind::fiber, [&] {
        coir_test::until([&] { return now.load(); });
        if (r % 2 == 0) waiter.cancel();
      });
      coir_test::until([&] { return started && std::chrono::steady_clock::now() >= when; });
      now = true;
      if (r % 3 == 0) coir::yield();
      s.release(2);
      canceller.join();
      waiter.join();
      ASSERT_TRUE(s.try_acquire(2)) << "lost in round " << r;
      s.release(2);
      ASSERT_EQ(granted + timed_out + cancelled, r + 1);
    }
    RecordProperty("granted", granted);
    RecordProperty("timed_out", timed_out);
    RecordProperty("cancelled", cancelled);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, semaphore_model_test, coir_test::processors, coir_test::processors_name);

}  // namespace
