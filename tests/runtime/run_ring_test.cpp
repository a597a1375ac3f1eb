// The run ring and the injection queue against models: each entry comes out exactly once, in order.
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "coir_test.hpp"
#include "sched/injection_queue.hpp"
#include "sched/run_ring.hpp"

namespace {

using coir::detail::injection_queue;
using coir::detail::run_ring;
using coir::detail::runnable;

std::vector<std::unique_ptr<runnable>> make_runnables(std::size_t n) {
  std::vector<std::unique_ptr<runnable>> all;
  for (std::size_t i = 0; i < n; ++i) all.push_back(std::make_unique<runnable>(runnable::kind::fresh));
  return all;
}

TEST(RunRing, IsEmptyAtFirst) {
  run_ring<4> ring;
  EXPECT_TRUE(ring.empty());
  EXPECT_FALSE(ring.full());
  EXPECT_EQ(ring.size(), 0U);
  EXPECT_EQ(ring.pop_front(), nullptr);
  EXPECT_EQ(ring.pop_back(), nullptr);
  runnable* out[2];
  EXPECT_EQ(ring.take_half(out), 0U);
}

TEST(RunRing, HoldsExactlyItsCapacity) {
  const auto all = make_runnables(4);
  run_ring<4> ring;
  for (const auto& r : all) {
    EXPECT_FALSE(ring.full());
    ring.push_back(r.get());
  }
  EXPECT_TRUE(ring.full());
  for (const auto& r : all) EXPECT_EQ(ring.pop_front(), r.get());
  EXPECT_TRUE(ring.empty());
}

TEST(RunRing, PopsTheOldestAtTheFrontAndTheNewestAtTheBack) {
  const auto all = make_runnables(3);
  run_ring<4> ring;
  for (const auto& r : all) ring.push_back(r.get());
  EXPECT_EQ(ring.pop_back(), all[2].get());
  EXPECT_EQ(ring.pop_front(), all[0].get());
  EXPECT_EQ(ring.pop_back(), all[1].get());
  EXPECT_EQ(ring.pop_back(), nullptr);
}

TEST(RunRing, AThiefTakesTheOldestHalfRoundedUp) {
  for (std::size_t n = 0; n <= 8; ++n) {
    const auto all = make_runnables(n);
    run_ring<8> ring;
    for (const auto& r : all) ring.push_back(r.get());
    runnable* out[4] = {};
    const std::uint32_t taken = ring.take_half(out);
    ASSERT_EQ(taken, (n + 1) / 2);
    for (std::uint32_t i = 0; i < taken; ++i) EXPECT_EQ(out[i], all[i].get());
    for (std::size_t i = taken; i < n; ++i) EXPECT_EQ(ring.pop_front(), all[i].get());
    EXPECT_TRUE(ring.empty());
  }
}

template <std::uint32_t Capacity>
void compare_with_a_deque(unsigned seed) {
  SCOPED_TRACE(testing::Message() << "seed " << seed << ", capacity " << Capacity);
  std::mt19937 random(seed);
  const auto all = make_runnables(64);
  run_ring<Capacity> ring;
  std::deque<runnable*> model;
  std::uint32_t left_at_head = 0;
  for (int i = 0; i < coir_test::scaled(100'000); ++i) {
    switch (random() % 5) {
      case 0:
      case 1:
        if (model.size() < Capacity) {
          runnable* r = all[random() % all.size()].get();
          ring.push_back(r);
          model.push_back(r);
        }
        break;
      case 2: {
        runnable* const expected = model.empty() ? nullptr : model.front();
        ASSERT_EQ(ring.pop_front(), expected);
        if (expected != nullptr) model.pop_front(), ++left_at_head;
        break;
      }
      case 3: {
        runnable* const expected = model.empty() ? nullptr : model.back();
        ASSERT_EQ(ring.pop_back(), expected);
        if (expected != nullptr) model.pop_back();
        break;
      }
      case 4:
        if (random() % 4 == 0) {
          runnable* out[Capacity / 2 + 1];
          const std::uint32_t taken = ring.take_half(out);
          ASSERT_EQ(taken, (model.size() + 1) / 2);
          for (std::uint32_t k = 0; k < taken; ++k, ++left_at_head) {
            ASSERT_EQ(out[k], model.front());
            model.pop_front();
          }
        }
        break;
    }
    ASSERT_EQ(ring.size(), model.size());
    ASSERT_EQ(ring.empty(), model.empty());
    ASSERT_EQ(ring.full(), model.size() == Capacity);
    ASSERT_EQ(ring.head(), left_at_head);
  }
}

TEST(RunRing, BehavesAsADequeOfLimitedSize) {
  for (const unsigned seed : {1U, 2U, 3U}) {
    compare_with_a_deque<4>(seed);
    compare_with_a_deque<256>(seed);
  }
}

// ---- injection queue -----------------------------------------------------------------------------------------------

TEST(InjectionQueue, IsFirstInFirstOut) {
  const auto all = make_runnables(5);
  injection_queue queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.pop(10), nullptr);
  for (const auto& r : all) queue.push(r.get());
  EXPECT_EQ(queue.size(), 5U);
  for (const auto& r : all) {
    EXPECT_EQ(queue.pop(1), r.get());
    EXPECT_EQ(r->next, nullptr);
  }
  EXPECT_TRUE(queue.empty());
}

TEST(InjectionQueue, GivesABatchAsAList) {
  const auto all = make_runnables(5);
  injection_queue queue;
  for (const auto& r : all) queue.push(r.get());
  runnable* r = queue.pop(3);
  for (std::size_t i = 0; i < 3; ++i, r = r->next) ASSERT_EQ(r, all[i].get());
  EXPECT_EQ(r, nullptr);
  EXPECT_EQ(queue.size(), 2U);
  r = queue.pop(3);
  EXPECT_EQ(r, all[3].get());
  EXPECT_EQ(r->next, all[4].get());
  EXPECT_EQ(r->next->next, nullptr);
  EXPECT_TRUE(queue.empty());
}

TEST(InjectionQueue, TakesAChainInItsOrder) {
  const auto all = make_runnables(4);
  injection_queue queue;
  queue.push(all[0].get());
  all[1]->next = all[2].get();
  all[2]->next = nullptr;
  queue.push_chain(all[1].get(), all[2].get(), 2);
  queue.push(all[3].get());
  EXPECT_EQ(queue.size(), 4U);
  for (const auto& r : all) EXPECT_EQ(queue.pop(1), r.get());
}

TEST(InjectionQueue, GivesEachEntryOnceToOneOfManyThreads) {
  constexpr std::size_t producers = 2;
  const std::size_t each = static_cast<std::size_t>(coir_test::scaled(50'000));
  std::vector<std::vector<std::unique_ptr<runnable>>> made;
  for (std::size_t p = 0; p < producers; ++p) {
    made.push_back(make_runnables(each));
    for (std::size_t i = 0; i < each; ++i) made[p][i]->line = static_cast<std::uint32_t>(p * each + i);
  }
  injection_queue queue;
  std::vector<std::atomic<int>> seen(producers * each);
  std::atomic<std::size_t> popped{0};
  std::vector<std::thread> threads;
  for (auto& own : made) {
    threads.emplace_back([&] {
      for (const auto& r : own) queue.push(r.get());
    });
  }
  for (std::size_t c = 0; c < 2; ++c) {
    threads.emplace_back([&, c] {
      std::vector<std::int64_t> last(producers, -1);
      while (popped < producers * each) {
        for (runnable* r = queue.pop(c == 0 ? 1 : 7); r != nullptr; r = r->next) {
          const std::size_t p = r->line / each;
          EXPECT_GT(static_cast<std::int64_t>(r->line), last[p]) << "one producer's entries changed their order";
          last[p] = r->line;
          ++seen[r->line];
          ++popped;
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (const auto& count : seen) ASSERT_EQ(count, 1);
  EXPECT_TRUE(queue.empty());
}

}  // namespace
