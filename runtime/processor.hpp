// A processor: the right to run fibers, and what belongs to it: run queues, timers, stacks, a random source. There are
// options::processors of them; a worker (an OS thread) needs to hold one to run a fiber.
//
// Who holds a processor may touch all of it with plain loads and stores. It is held
//   - by its owner, the worker in `owner`, while that worker is inside its runtime bracket (worker.hpp);
//   - by whoever succeeded in try_lock(): a thief, a worker that fires the timers of another's processor, the monitor;
//   - by the holder of lock_ while `owner` is null (idle processors).
// `owner` changes only under lock_. Members marked (any) are read by others as hints.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <coir/spin_lock.hpp>
#include <coir/start_record.hpp>

#include "random.hpp"
#include "run_ring.hpp"
#include "timer_heap.hpp"

namespace coir::detail {

struct fiber;
class worker;

class alignas(64) processor {
 public:
  using ring = run_ring<256>;

  explicit processor(unsigned index) noexcept : random(0x2545f4914f6cdd1dU * (index + 1)), index_(index) {}

  unsigned index() const noexcept { return index_; }

  /// For others than the owner: takes hold of the processor unless somebody else has it or its owner does not leave the
  /// runtime soon. While held, the owner waits at its next runtime entry. Keep it short.
  bool try_lock() noexcept;
  void unlock() noexcept;

  /// Changes the owner; for the idle protocol.
  void give_to(worker* w) noexcept;
  worker* owner() const noexcept { return owner_.load(std::memory_order_relaxed); }

  // --- hot: what a switch touches
  runnable* next = nullptr;            // just made runnable: runs next, on the time slice of who made it so
  std::uint32_t next_left = 0;         // how many more may go through `next` before a queue must be looked at
  std::atomic<std::uint32_t> tick{0};  // (any) counts picks: unchanged for a while means that one fiber computes
  std::atomic<bool> has_next{false};   // (any) a hint of next != nullptr, kept by the push that leaves it behind
  std::uint64_t started = 0;           // fibers that were spawned from here
  std::uint64_t ended = 0;             // fibers that ended here; the sums over all processors give the live ones
  fiber* stacks = nullptr;             // free stacks, the warmest first, linked by runnable::next
  std::size_t stack_count = 0;
  std::int64_t last_oldest = 0;  // when the oldest fresh fiber last had its turn
  random_source random;

  // --- how eagerly pushes here wake an idle worker (idle.cpp)
  std::atomic<std::uint32_t> wake_gap{0};  // (any) picks that must lie between two wakes; doubled by useless ones
  std::atomic<std::uint32_t> last_wake{0};
  std::atomic<bool> overdue{false};  // (any) the monitor has seen something wait here: take it without further ado

  // --- queues
  ring ready;  // made runnable again: oldest first
  ring fresh;  // not started: the owner takes the newest (depth first), thieves the oldest
  timer_heap timers;

 private:
  unsigned index_;
  alignas(64) spin_lock lock_;
  std::atomic<worker*> owner_{nullptr};
};

}  // namespace coir::detail
