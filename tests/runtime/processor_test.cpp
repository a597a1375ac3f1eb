// Who holds a processor holds it alone: its owner inside the runtime bracket, or who succeeded in try_lock. Litmus
// tests of the bracket and of the fences that it stands on; and how many CPUs may be used.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <sched.h>

#include <coir/detail/start_record.hpp>

#include "base/asymmetric_fence.hpp"
#include "base/cpu_count.hpp"
#include "coir_test.hpp"
#include "sched/processor.hpp"
#include "sched/worker.hpp"

namespace {

using namespace coir::detail;
using coir_test::scaled;

// ---- fences --------------------------------------------------------------------------------------------------------

/// Two threads that begin each round at the same moment.
class start_line {
 public:
  void pass(int round) {
    arrived_.fetch_add(1);
    for (int spins = 0; arrived_.load() < 2 * round; ++spins)
      if (spins > 2000) std::this_thread::yield();
  }

 private:
  std::atomic<int> arrived_{0};
};

// Dekker's pattern: each stores its own word, then loads the other's; both seeing nothing is what must never be.
TEST(AsymmetricFence, AtLeastOneSideSeesTheOther) {
  register_asymmetric_fence();
  alignas(64) std::atomic<int> x{0};
  alignas(64) std::atomic<int> y{0};
  start_line line;
  const int rounds = scaled(50'000);
  std::vector<char> hot_saw(static_cast<std::size_t>(rounds) + 1), cold_saw(static_cast<std::size_t>(rounds) + 1);
  std::thread hot([&] {
    for (int i = 1; i <= rounds; ++i) {
      line.pass(i);
      x.store(i, std::memory_order_relaxed);
      light_fence();
      hot_saw[static_cast<std::size_t>(i)] = y.load(std::memory_order_relaxed) == i ? 1 : 0;
    }
  });
  for (int i = 1; i <= rounds; ++i) {
    line.pass(i);
    for (int wait = i % 64; wait > 0; --wait) asm volatile("" ::: "memory");
    y.store(i, std::memory_order_relaxed);
    heavy_fence();
    cold_saw[static_cast<std::size_t>(i)] = x.load(std::memory_order_relaxed) == i ? 1 : 0;
  }
  hot.join();
  for (int i = 1; i <= rounds; ++i)
    ASSERT_TRUE(hot_saw[static_cast<std::size_t>(i)] || cold_saw[static_cast<std::size_t>(i)]) << "round " << i;
}

// ---- the bracket ---------------------------------------------------------------------------------------------------

/// Two counters that only who is alone can keep equal. Relaxed loads and stores, no read-modify-write: as plain data,
/// but without ThreadSanitizer, which cannot see the bracket's fences, calling it a race.
class fragile {
 public:
  void touch() {
    const long a = first_.load(std::memory_order_relaxed);
    EXPECT_EQ(a, second_.load(std::memory_order_relaxed)) << "two were inside";
    first_.store(a + 1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    for (long i = a % 8; i > 0; --i) asm volatile("" ::: "memory");
    second_.store(a + 1, std::memory_order_relaxed);
  }
  long touched() const { return first_.load(); }

 private:
  alignas(64) std::atomic<long> first_{0};
  alignas(64) std::atomic<long> second_{0};
};

class Bracket : public testing::Test {
 protected:
  Bracket()
      : runtime_([] {
          coir::options o;
          o.processors = 1;
          return o;
        }()) {
    runtime_.run([this] { home_ = &current_scheduler("test"); });
    contested_ = std::make_unique<processor>(0U);
  }

  std::unique_ptr<worker> make_worker() { return std::make_unique<worker>(*home_); }

  /// Tries until told to end, counting its successes.
  long steal(const std::atomic<bool>& stop) {
    long stolen = 0;
    while (!stop) {
      if (!contested_->try_lock()) continue;
      data_.touch();
      contested_->unlock();
      ++stolen;
      if (stolen % 16 == 0) std::this_thread::yield();
    }
    return stolen;
  }

  coir::runtime runtime_;
  scheduler* home_ = nullptr;
  std::unique_ptr<processor> contested_;
  fragile data_;
};

TEST_F(Bracket, TheOwnerAndThievesAreNeverBothInside) {
  const auto owner = make_worker();
  contested_->give_to(owner.get());
  owner->held = contested_.get();
  std::atomic<bool> stop{false};
  std::atomic<long> stolen{0};
  std::vector<std::thread> thieves;
  for (int i = 0; i < 2; ++i) thieves.emplace_back([&] { stolen += steal(stop); });
  long entered = 0;
  const long enough = scaled(2'000'000L);
  // Both make progress: the owner enough, the thieves some.
  for (long thefts = 0; entered < enough || thefts < 100; thefts = data_.touched() - entered) {
    for (int i = 0; i < 1000; ++i, ++entered) {
      ASSERT_EQ(owner->enter(), contested_.get());
      data_.touch();
      owner->leave();
    }
    if (entered > enough) std::this_thread::yield();
  }
  stop = true;
  for (std::thread& t : thieves) t.join();
  EXPECT_EQ(data_.touched(), entered + stolen);
}

TEST_F(Bracket, AnOwnerThatNeverEntersKeepsNobodyOut) {
  const auto owner = make_worker();
  contested_->give_to(owner.get());
  owner->held = contested_.get();
  for (int i = 0; i < 100; ++i) {
    while (!contested_->try_lock()) std::this_thread::yield();
    data_.touch();
    contested_->unlock();
  }
  EXPECT_EQ(data_.touched(), 100);
}

TEST_F(Bracket, AThiefGivesUpOnAnOwnerThatStaysInside) {
  const auto owner = make_worker();
  contested_->give_to(owner.get());
  owner->held = contested_.get();
  owner->enter();
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(contested_->try_lock());
  owner->leave();
  coir_test::until([&] { return contested_->try_lock(); });
  contested_->unlock();
  owner->enter();  // and no request is left behind
  owner->leave();
}

TEST_F(Bracket, OneThiefAtATime) {
  ASSERT_TRUE(contested_->try_lock());  // idle: no owner
  EXPECT_FALSE(contested_->try_lock());
  contested_->unlock();
  ASSERT_TRUE(contested_->try_lock());
  contested_->unlock();
}

TEST_F(Bracket, TheProcessorMayChangeHandsAmongThieves) {
  std::atomic<bool> stop{false};
  std::atomic<long> stolen{0};
  std::vector<std::thread> thieves;
  for (int i = 0; i < 2; ++i) thieves.emplace_back([&] { stolen += steal(stop); });
  // Two owners in turn, each on a thread of its own, with a time without any in between.
  long entered = 0;
  for (int round = 0; round < scaled(200); ++round) {
    std::thread([&] {
      const auto owner = make_worker();
      contested_->give_to(owner.get());
      owner->held = contested_.get();
      for (int i = 0; i < 500; ++i, ++entered) {
        owner->enter();
        data_.touch();
        owner->leave();
      }
      contested_->give_to(nullptr);
    }).join();
  }
  stop = true;
  for (std::thread& t : thieves) t.join();
  EXPECT_EQ(data_.touched(), entered + stolen);
}

// The processor goes back and forth between two workers that enter it all the time; a third thread retakes it.
TEST_F(Bracket, WhoseProcessorIsRetakenNeverTouchesItAgain) {
  if (coir_test::thread_sanitizer)
    GTEST_SKIP() << "enter(), instrumented here, is ordered by fences that it cannot see";
  const std::unique_ptr<worker> workers[] = {make_worker(), make_worker()};
  const int enough = scaled(4'000);
  std::atomic<bool> stop{false};
  std::atomic<long> entered{0};
  std::atomic<int> round{-1};  // even ones are the first worker's; what the idle protocol's futex does
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      worker& self = *workers[i];
      while (!stop) {
        const int mine = round.load(std::memory_order_acquire);
        if (mine % 2 != i) {
          std::this_thread::yield();
          continue;
        }
        processor* p = self.enter();
        while (p != nullptr) {
          data_.touch();
          entered.fetch_add(1, std::memory_order_relaxed);
          self.leave();
          p = self.enter();
        }
        // Lost: the other one has it, by now or soon.
        while (!stop && round.load(std::memory_order_acquire) == mine) std::this_thread::yield();
      }
    });
  }
  workers[0]->held = contested_.get();
  contested_->give_to(workers[0].get());
  round = 0;
  for (int retaken = 0; retaken < enough;) {
    if (!contested_->try_lock()) continue;
    data_.touch();
    const int other = (retaken + 1) % 2;
    workers[other]->held = contested_.get();  // first: unlike a sleeper it may be about to enter
    contested_->move_to(workers[other].get(), "test");
    round.store(++retaken, std::memory_order_release);
    if (retaken % 8 == 0) {
      const long before = entered;
      while (entered == before) std::this_thread::yield();
    }
  }
  stop = true;
  while (!contested_->try_lock()) continue;
  contested_->move_to(nullptr, "test");
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(data_.touched(), entered + enough);
}

// ---- CPUs ----------------------------------------------------------------------------------------------------------

TEST(UsableCpus, AreAtLeastOneAndAtMostThoseOfTheAffinityMask) {
  cpu_set_t mask;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(mask), &mask), 0);
  EXPECT_GE(usable_cpus(), 1U);
  EXPECT_LE(usable_cpus(), static_cast<unsigned>(CPU_COUNT(&mask)));
}

TEST(UsableCpus, AreOneWhenTheMaskHasOne) {
  // On a thread of its own, since the mask is a thread's.
  std::thread([] {
    cpu_set_t mask;
    ASSERT_EQ(::sched_getaffinity(0, sizeof(mask), &mask), 0);
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(usable_cpus(), 1U);
  }).join();
}

}  // namespace
