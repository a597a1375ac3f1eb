// The timer heap against a std::multimap: earliest first, each fired once, lazily cancelled ones never; and cancelled
// timers hold no memory for long.
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "coir_test.hpp"
#include "sched/processor.hpp"
#include "timer/timer_heap.hpp"

namespace {

using namespace coir::detail;

/// What was fired, by the argument that the timers were made with.
void note_fired(void* arg, std::uint64_t stamp) noexcept {
  static_cast<std::vector<std::uint64_t>*>(arg)->push_back(stamp);
}

class TimerHeap : public testing::Test {
 protected:
  timer_node* push(deadline when, std::uint64_t stamp = 0) {
    timer_node* n = make_timer(&home_, when, &note_fired, &fired_, stamp);
    heap_.push(*n);
    return n;
  }

  /// As an owner that has migrated does it. False if it has fired.
  bool cancel_lazily(timer_node* n) {
    timer_node::state seen = timer_node::state::armed;
    if (!n->word.compare_exchange_strong(seen, timer_node::state::dead)) return false;
    heap_.note_dead();
    return true;
  }

  /// A heap with so many timers, so far apart, of which each dead_every-th was cancelled lazily.
  void destroy_with(int timers, deadline apart, int dead_every) {
    std::vector<timer_node*> owned;
    {
      timer_heap going;
      for (int i = 0; i < timers; ++i) {
        timer_node* n = make_timer(&home_, i * apart, &note_fired, &fired_, 0);
        going.push(*n);
        if (i % dead_every == 0) {
          n->word = timer_node::state::dead;
          going.note_dead();
        } else {
          owned.push_back(n);
        }
      }
      EXPECT_EQ(going.live(), owned.size());
    }
    for (timer_node* n : owned) {
      EXPECT_EQ(n->word, timer_node::state::orphaned);
      free_timer(n);
    }
    EXPECT_TRUE(fired_.empty());
  }

  processor home_{0};
  timer_heap heap_;
  std::vector<std::uint64_t> fired_;
};

TEST_F(TimerHeap, IsEmptyAtFirst) {
  EXPECT_EQ(heap_.earliest(), no_deadline);
  EXPECT_EQ(heap_.live(), 0U);
  EXPECT_FALSE(heap_.pop_due(no_deadline));
}

TEST_F(TimerHeap, FiresWhatIsDueAndNothingElse) {
  timer_node* n = push(100, 7);
  EXPECT_EQ(heap_.earliest(), 100);
  EXPECT_EQ(heap_.live(), 1U);
  EXPECT_FALSE(heap_.pop_due(99));
  const due_timer due = heap_.pop_due(100);
  ASSERT_TRUE(due);
  due.fire(due.arg, due.stamp);
  EXPECT_EQ(fired_, std::vector<std::uint64_t>{7});
  EXPECT_EQ(heap_.earliest(), no_deadline);
  EXPECT_EQ(n->word, timer_node::state::fired);
  EXPECT_FALSE(cancel_lazily(n));
  free_timer(n);
}

TEST_F(TimerHeap, ErasesFromTheMiddle) {
  std::vector<timer_node*> nodes;
  for (int i = 0; i < 50; ++i) nodes.push_back(push(i * 37 % 50));
  for (int i = 0; i < 50; i += 2) heap_.erase(*nodes[static_cast<std::size_t>(i)]);
  EXPECT_EQ(heap_.live(), 25U);
  std::vector<deadline> left;
  for (int i = 1; i < 50; i += 2) left.push_back(i * 37 % 50);
  std::sort(left.begin(), left.end());
  for (const deadline when : left) {
    EXPECT_EQ(heap_.earliest(), when);
    EXPECT_FALSE(heap_.pop_due(when - 1));
    EXPECT_TRUE(heap_.pop_due(when));
  }
  EXPECT_EQ(heap_.live(), 0U);
  for (int i = 1; i < 50; i += 2) free_timer(nodes[static_cast<std::size_t>(i)]);
}

TEST_F(TimerHeap, ADeadTimerIsSkippedAndFreed) {
  timer_node* dead = push(10, 1);
  timer_node* live = push(20, 2);
  ASSERT_TRUE(cancel_lazily(dead));
  EXPECT_EQ(heap_.live(), 1U);
  EXPECT_FALSE(heap_.pop_due(15));
  EXPECT_EQ(heap_.earliest(), 20);
  const due_timer due = heap_.pop_due(20);
  ASSERT_TRUE(due);
  EXPECT_EQ(due.stamp, 2U);
  free_timer(live);
}

TEST_F(TimerHeap, CleanDropsTheDeadOnceTheyAreTheGreaterPart) {
  std::vector<timer_node*> nodes;
  for (int i = 0; i < 200; ++i) nodes.push_back(push(i));
  for (int i = 0; i < 150; ++i) ASSERT_TRUE(cancel_lazily(nodes[static_cast<std::size_t>(i)]));
  EXPECT_EQ(heap_.earliest(), 0);
  heap_.clean();
  EXPECT_EQ(heap_.earliest(), 150);  // so the dead are gone, and the rest is a heap
  EXPECT_EQ(heap_.live(), 50U);
  for (int i = 150; i < 200; ++i) {
    EXPECT_EQ(heap_.earliest(), i);
    EXPECT_TRUE(heap_.pop_due(i));
    free_timer(nodes[static_cast<std::size_t>(i)]);
  }
}

TEST_F(TimerHeap, BehavesAsAMultimap) {
  // The time between two steps, how far ahead the timers are, and how many there are at least: if many, some lie in the
  // wheel, few at a time or all of a second.
  struct run {
    unsigned seed;
    deadline step, ahead;
    std::size_t crowd;
  };
  constexpr run runs[] = {{1, 100, 1'000, 0},
                          {2, 100'000, 10'000'000, 0},
                          {3, 100, 1'000'000, 700},
                          {4, 100'000, 10'000'000, 700},
                          {5, 1'000'000, 1'000'000'000, 1'500},
                          {6, 100'000'000, 5'000'000'000, 1'500},
                          {7, 3'000'000'000, 1'000'000'000'000, 700},
                          {8, 3, 1'000'000'000'000'000, 700}};
  deadline time = 0;
  for (const run& each : runs) {
    const deadline ahead = each.ahead;
    SCOPED_TRACE(testing::Message() << "seed " << each.seed);
    std::mt19937_64 random(each.seed);
    const auto below = [&](deadline bound) {
      return static_cast<deadline>(random() % static_cast<std::uint64_t>(bound));
    };
    // Of any magnitude.
    const auto delay = [&] { return below(std::max<deadline>(ahead >> below(20), 1)); };
    struct entry {
      std::uint64_t stamp;
      timer_node* node;
    };
    std::multimap<deadline, entry> model;
    std::uint64_t stamps = 0;
    const auto random_entry = [&] {
      auto it = model.begin();
      std::advance(it, static_cast<std::ptrdiff_t>(random() % model.size()));
      return it;
    };
    for (int i = 0; i < coir_test::scaled(30'000); ++i) {
      switch (model.size() < each.crowd ? 0 : random() % 7) {
        case 0:
        case 1:
        case 2: {
          const deadline when = time + delay();
          const std::uint64_t stamp = ++stamps;
          model.emplace(when, entry{stamp, push(when, stamp)});
          break;
        }
        case 3:
          if (!model.empty()) {
            const auto it = random_entry();
            heap_.erase(*it->second.node);
            model.erase(it);
          }
          break;
        case 4:
          if (!model.empty()) {
            const auto it = random_entry();
            ASSERT_TRUE(cancel_lazily(it->second.node));
            model.erase(it);
          }
          break;
        case 5:
          if (!model.empty()) {
            const auto it = random_entry();
            const entry moved = it->second;
            const deadline when = time + delay();
            heap_.move(*moved.node, when);
            model.erase(it);
            model.emplace(when, moved);
          }
          break;
        case 6:
          time += below(each.step);
          deadline last = 0;
          while (const due_timer due = heap_.pop_due(time)) {
            ASSERT_FALSE(model.empty());
            const deadline earliest = model.begin()->first;
            ASSERT_LE(earliest, time);
            ASSERT_GE(earliest, last);
            last = earliest;
            // Among those with the same deadline any may come.
            const auto [first, end] = model.equal_range(earliest);
            const auto it = std::find_if(first, end, [&](const auto& e) { return e.second.stamp == due.stamp; });
            ASSERT_NE(it, end) << "not the earliest, or never pushed, or cancelled";
            free_timer(it->second.node);
            model.erase(it);
          }
          ASSERT_TRUE(model.empty() || model.begin()->first > time);
          break;
      }
      ASSERT_EQ(heap_.live(), model.size());
      const deadline bound = model.empty() ? no_deadline : model.begin()->first;
      // Less if a dead one is still before it, more if many have just come together.
      ASSERT_LE(heap_.earliest(), std::max(bound, time + timer_heap::burst_gap));
      if (i % 64 == 0) heap_.clean();
    }
    for (const auto& [when, e] : model) heap_.erase(*e.node);
    time += 2 * ahead;
    while (heap_.pop_due(time)) FAIL() << "a dead timer fired";
  }
}

// One in 2 us for a while, and then fewer: in bursts, and then each at its time.
TEST_F(TimerHeap, TimersThatComeThickAreFiredInBursts) {
  constexpr deadline gap = timer_heap::burst_gap;
  constexpr int thick = 50 * gap / 2'000;
  std::vector<timer_node*> nodes;
  deadline last = 0;
  for (int i = 0; i < thick; ++i) nodes.push_back(push(last += 2'000));
  const deadline last_thick = last;
  for (int i = 0; i < 100; ++i) nodes.push_back(push(last += 50'000));
  std::size_t popped = 0;
  int bursts = 0;
  for (deadline time = heap_.earliest(); time != no_deadline; time = heap_.earliest()) {
    const std::size_t first = popped;
    while (heap_.pop_due(time)) ++popped;
    ASSERT_GT(popped, first);
    const deadline due = nodes[first]->when;
    EXPECT_LE(time - due, gap);
    if (due <= last_thick) ++bursts;
    if (due > last_thick + gap) {
      EXPECT_EQ(time, due);
    }
  }
  EXPECT_EQ(popped, nodes.size());
  // One by one until it is seen how thick they come, and near the end, when few are to come.
  EXPECT_LE(bursts, last_thick / gap + 2 * gap / 2'000);
  for (timer_node* n : nodes) free_timer(n);
}

// Thick ones alone make no burst: others must be about to come.
TEST_F(TimerHeap, TimersThatComeOneAfterTheOtherWaitForNone) {
  deadline time = 0;
  for (int i = 0; i < 1'000; ++i) {  // a fiber that sleeps for 1 us again and again
    timer_node* n = push(time += 1'000);
    ASSERT_EQ(heap_.earliest(), time);
    ASSERT_TRUE(heap_.pop_due(time));
    ASSERT_FALSE(heap_.pop_due(time));
    free_timer(n);
  }
  constexpr deadline gap = timer_heap::burst_gap;
  constexpr int together = gap / 5'000;
  for (int round = 0; round < 100; ++round) {  // many at once, now and then, and one alone behind them
    time += gap * 3 / 2;
    std::vector<timer_node*> nodes;
    for (int i = 0; i < together; ++i) nodes.push_back(push(time));
    nodes.push_back(push(time + 20'000));
    ASSERT_EQ(heap_.earliest(), time);
    for (int i = 0; i < together; ++i) ASSERT_TRUE(heap_.pop_due(time));
    ASSERT_FALSE(heap_.pop_due(time));
    ASSERT_EQ(heap_.earliest(), time + 20'000);
    ASSERT_TRUE(heap_.pop_due(time + 20'000));
    ASSERT_FALSE(heap_.pop_due(time + 20'000));
    for (timer_node* n : nodes) free_timer(n);
  }
}

// The destructor frees the dead and leaves the others to their owners; AddressSanitizer tells if it does not.
TEST_F(TimerHeap, MayBeDestroyedWithTimersInIt) { destroy_with(100, 1, 2); }
TEST_F(TimerHeap, AWheelMayBeDestroyedWithTimersInIt) { destroy_with(5'000, 100'000, 4); }

TEST_F(TimerHeap, AMillionCancelledFarTimersHoldNoMemory) {
  const auto resident_pages = [] {
    std::ifstream in("/proc/self/statm");
    long size = 0, resident = 0;
    in >> size >> resident;
    return resident;
  };
  constexpr deadline far = no_deadline - 1;
  const long before = resident_pages();
  for (int i = 0; i < coir_test::scaled(1'000'000); ++i) cancel_lazily(push(far));
  EXPECT_EQ(heap_.live(), 0U);
  if (!coir_test::address_sanitizer && !coir_test::thread_sanitizer) {
    EXPECT_LT(resident_pages() - before, 1'000);  // 64 bytes each would be 15,000
  }
}

}  // namespace
