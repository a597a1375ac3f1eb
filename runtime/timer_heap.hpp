// The timers of one processor: a 4-ary heap by deadline.
//
// Who touches the heap holds the processor. A timer whose owner has migrated is cancelled lazily, by its state word:
//
//   armed -> dead      the owner cancelled it first: the heap frees the node when it comes to the top, or when half of
//                      the heap is dead
//   armed -> fired     the heap popped it first: the owner of the wait frees the node, when it has woken
//
// The heap reads all it needs before it moves the word to `fired`, and does not touch the node after that.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <coir/park.hpp>

namespace coir::detail {

class processor;

struct timer_node {
  enum class state : std::uint8_t { armed, fired, dead };

  deadline when;
  std::uint32_t index = 0;  // in the heap; of the holder of the processor
  std::atomic<state> word{state::armed};
  processor* home;
  void (*fire)(void* arg, std::uint64_t stamp) noexcept;  // called with no processor held; must not block
  void* arg;
  std::uint64_t stamp;
};

/// What is left of a popped timer: call it when nothing is held.
struct due_timer {
  void (*fire)(void* arg, std::uint64_t stamp) noexcept = nullptr;
  void* arg = nullptr;
  std::uint64_t stamp = 0;

  explicit operator bool() const noexcept { return fire != nullptr; }
};

class timer_heap {
 public:
  timer_heap() = default;
  ~timer_heap();
  timer_heap(const timer_heap&) = delete;
  timer_heap& operator=(const timer_heap&) = delete;

  /// The earliest deadline, no_deadline if none. Anyone may ask: a hint unless the processor is held.
  deadline earliest() const noexcept { return earliest_.load(std::memory_order_relaxed); }

  /// Live timers. Holder only.
  std::size_t live() const noexcept { return entries_.size() - dead_.load(std::memory_order_relaxed); }

  void push(timer_node& n);

  /// Takes an armed node out (it is in this heap) and frees it. Holder only.
  void erase(timer_node& n) noexcept;

  /// Pops the next timer that is due at `time`.
  due_timer pop_due(deadline time) noexcept;

  /// For the lazy cancel, by anyone; the heap's holder cleans up later.
  void note_dead() noexcept { dead_.fetch_add(1, std::memory_order_relaxed); }

  /// Drops the dead if they are the greater part. Holder only; amortized O(1) a cancelled timer.
  void clean() noexcept;

 private:
  struct entry {
    deadline when;
    timer_node* node;
  };

  void sift_up(std::size_t i) noexcept;
  void sift_down(std::size_t i) noexcept;
  void place(std::size_t i, entry e) noexcept;
  void remove_at(std::size_t i) noexcept;
  void publish() noexcept;

  std::vector<entry> entries_;
  std::atomic<std::size_t> dead_{0};
  std::atomic<deadline> earliest_{no_deadline};
};

/// A node for a timer of `home`; freed by free_timer().
timer_node* make_timer(processor& home, deadline when, void (*fire)(void*, std::uint64_t) noexcept, void* arg,
                       std::uint64_t stamp);
void free_timer(timer_node* n) noexcept;

}  // namespace coir::detail
