// The timers of one processor: a 4-ary heap by deadline. If there are very many, a wheel holds those that are due
// within a second (timer_wheel.hpp).
//
// A thread that touches the heap holds the processor. A timer whose owner has migrated is cancelled lazily, by its
// word:
//
//   armed -> dead        the owner cancelled it first: the heap frees the node when it comes to the top, or when half
//                        of the heap is dead
//   armed -> fired       the heap popped it first: the owner of the wait frees the node, when it has woken
//
// Two more for alarms (alarm.cpp), whose owner may be anywhere, and may live on when the runtime has ended:
//
//   armed -> cancelling  the owner is going to touch the heap from outside. The heap is not destroyed before the word
//   cancelling -> dead   says dead: the owner has finished, and the heap frees the node
//   armed -> orphaned    the heap is being destroyed: the owner frees the node
//
// The heap reads all it needs before it moves the word to `fired`, and does not touch the node after that.
//
// Dense timers, one in 8 us or more often, are fired in bursts 0.5 ms apart. To sleep until each timer and wake for it
// costs more than most of the woken fibers do. And a burst fetches the memory of its fibers into the cache together.
// earliest() decides this: after 0.5 ms of dense timers, and with as many due in the next 0.5 ms, it names no time
// before the end of these. So a timer may then be 0.5 ms late.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/detail/park.hpp>

#include "base/internal_memory.hpp"
#include "base/prefetch.hpp"
#include "base/sanitizer.hpp"
#include "timer/timer_wheel.hpp"

namespace coir::inline COIR_ABI::detail {

class processor;

struct timer_node {
  enum class state : std::uint8_t { armed, fired, dead, cancelling, orphaned };
  static constexpr std::uint16_t not_in_wheel = 0xffff;

  deadline when;
  // Where it lies; of the holder of the processor.
  std::uint32_t index = 0;
  std::uint16_t slot = not_in_wheel;
  std::atomic<state> word{state::armed};
  bool announced = false;                                 // to ThreadSanitizer: arming it happens before the call
  processor* home;                                        // null: the outside timers
  void (*fire)(void* arg, std::uint64_t stamp) noexcept;  // called with no processor held; must not block
  void* arg;
  std::uint64_t stamp;
};

/// The call that a popped timer asks for: make it when nothing is held.
struct due_timer {
  void (*fire)(void* arg, std::uint64_t stamp) noexcept = nullptr;
  void* arg = nullptr;
  std::uint64_t stamp = 0;
  bool announced = false;

  explicit operator bool() const noexcept { return fire != nullptr; }
  void operator()() const noexcept {
    if (announced) tsan_acquire(arg);
    fire(arg, stamp);
  }
};

class timer_heap {
 public:
  static constexpr std::int64_t burst_gap = 500'000;  // ns

  timer_heap() = default;
  ~timer_heap();  // as abandon()
  timer_heap(const timer_heap&) = delete;
  timer_heap& operator=(const timer_heap&) = delete;

  /// When to look here next: the earliest deadline, or the next burst if that is later. It may be too early, if the
  /// first timer of the wheel was erased. no_deadline if there is nothing. A hint, unless the processor is held.
  deadline earliest() const noexcept { return earliest_.load(std::memory_order_relaxed); }

  /// Live timers. Holder only.
  std::size_t live() const noexcept { return size() - dead_.load(std::memory_order_relaxed); }

  /// Hints of live() == 0, and of how much clean() would do. The caller keeps the heap alive.
  bool seems_idle() const noexcept {
    return count_.load(std::memory_order_relaxed) <= dead_.load(std::memory_order_relaxed);
  }
  bool wants_cleaning() const noexcept {
    const std::size_t count = count_.load(std::memory_order_relaxed);
    return count >= clean_from && dead_.load(std::memory_order_relaxed) * 2 >= count;
  }

  /// Live timers. From any thread, as a hint. While no worker touches the heap it is never too few, even if another
  /// thread cleans it.
  std::size_t pending() const noexcept {
    const std::size_t all = count_.load(std::memory_order_relaxed);
    return all - std::min(all, dead_.load(std::memory_order_relaxed));
  }

  void push(timer_node& n);

  /// Gives an armed node (it is in this heap) another time. Holder only.
  void move(timer_node& n, deadline when) noexcept;

  /// Takes an armed node out (it is in this heap) and frees it. Holder only.
  void erase(timer_node& n) noexcept;

  /// Pops the next timer that is due at `time`.
  due_timer pop_due(deadline time) noexcept;

  /// In an exploration: how many are due at `time`, and the one of them that is to go first. Holder only.
  std::size_t count_due(deadline time) const noexcept;
  due_timer pop_due(deadline time, std::size_t which) noexcept;

  /// For the lazy cancel, by anyone; the heap's holder cleans up later.
  void note_dead() noexcept { dead_.fetch_add(1, std::memory_order_relaxed); }

  /// Drops the dead if they are the greater part. Holder only; amortized O(1) a cancelled timer.
  void clean() noexcept;

  /// Empties it: nodes that are still armed belong to their owners from now on. Holder only.
  void abandon() noexcept;

 private:
  static constexpr std::size_t clean_from = 64;
  static constexpr std::size_t wheel_from = explorable ? SIZE_MAX : 512;  // so many in the heap
  static constexpr std::int64_t thick = 8'000;                            // ns between two

  std::size_t size() const noexcept { return heap_.size() + wheel_.size(); }

  void sift_up(std::size_t i) noexcept;
  void sift_down(std::size_t i) noexcept;
  void place(std::size_t i, timer_entry e) noexcept;
  void insert(timer_entry e) noexcept;
  void push_heap(timer_entry e) noexcept;
  void advance(deadline time) noexcept {
    wheel_.advance(time, [this](timer_entry e) { push_heap(e); });
  }
  void remove_at(std::size_t i) noexcept;
  [[gnu::noinline]] void make_room();
  bool burst_ahead(deadline before) noexcept;
  void end_burst(deadline time) noexcept;
  void publish() noexcept;
  void shrink() noexcept;

  internal_vector<timer_entry> heap_;  // with room for those in the wheel
  deadline next_burst_ = 0;
  deadline burst_began_ = 0;
  std::int64_t popped_ = 0;            // since then
  std::atomic<std::size_t> count_{0};  // size()
  std::atomic<std::size_t> dead_{0};
  std::atomic<deadline> earliest_{no_deadline};
  timer_wheel wheel_;
};

/// Due timers, as many as a core fetches at a time or so.
class due_timers {
 public:
  /// By the heap's holder.
  void pop(timer_heap& timers, deadline time) noexcept {
    count_ = 0;
    while (!full() && (timers_[count_] = timers.pop_due(time))) ++count_;
  }
  bool empty() const noexcept { return count_ == 0; }
  /// There may be more.
  bool full() const noexcept { return count_ == size; }

  /// When nothing is held.
  void fire() const noexcept {
    for (std::size_t i = 0; i < count_; ++i) prefetch_lines<2>(timers_[i].arg);
    for (std::size_t i = 0; i < count_; ++i) timers_[i]();
  }

 private:
  static constexpr std::size_t size = 16;

  due_timer timers_[size];
  std::size_t count_ = 0;
};

/// A node for a timer of `home`; freed by free_timer().
timer_node* make_timer(processor* home, deadline when, void (*fire)(void*, std::uint64_t) noexcept, void* arg,
                       std::uint64_t stamp);
void free_timer(timer_node* n) noexcept;

}  // namespace coir::detail
