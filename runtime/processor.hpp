// A processor: the right to run fibers, and what belongs to it: run queues, timers, stacks, a random source. There are
// options::processors of them; a worker (an OS thread) needs to hold one to run a fiber.
//
// Who holds a processor may touch all of it with plain loads and stores. It is held
//   - by its owner, the worker in `owner`, while that worker is inside its runtime bracket (worker.hpp);
//   - by whoever succeeded in try_lock(): a thief, a worker that fires the timers of another's processor, the monitor;
//   - by the holder of lock_ while `owner` is null (idle processors).
// A fiber that computes or blocks its thread for long loses its worker's processor (retake.cpp).
// `owner` changes only under lock_. Members marked (any) are read by others as hints.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <coir/spin_lock.hpp>
#include <coir/start_record.hpp>

#include "counter.hpp"
#include "random.hpp"
#include "run_ring.hpp"
#include "timer_heap.hpp"
#include "wake_latency.hpp"

namespace coir::detail {

struct fiber;
class scheduler;
class worker;

/// Of so many picks one is rare: scheduler::pick_rare().
inline constexpr std::uint8_t rare = 16;

class alignas(64) processor {
 public:
  using ring = run_ring<256>;

  explicit processor(unsigned index, scheduler* home = nullptr) noexcept
      : random(0x2545f4914f6cdd1dU * (index + 1)), index_(index), home_(home) {}

  unsigned index() const noexcept { return index_; }
  scheduler* home() const noexcept { return home_; }

  /// For others than the owner: takes hold of the processor unless somebody else has it or its owner does not leave the
  /// runtime soon. While held, the owner waits at its next runtime entry. Keep it short.
  bool try_lock() noexcept;
  void unlock() noexcept;

  /// Changes the owner; for the idle protocol.
  void give_to(worker* w) noexcept;

  /// For who has locked it with try_lock(): takes it away from its owner, who finds out at its next runtime entry, for
  /// a worker that sleeps (null: for nobody), and unlocks.
  void move_to(worker* successor, const char* why) noexcept;

  /// The owner gives it up while it runs a fiber, outside its bracket. False: it has lost it already.
  bool leave_owner(worker& w, worker* successor) noexcept;

  worker* owner() const noexcept { return owner_.load(std::memory_order_relaxed); }

  // --- hot: what a switch touches
  runnable* next = nullptr;            // just made runnable: runs next, on the time slice of who made it so
  std::uint32_t next_left = 0;         // how many more may go through `next` before a queue must be looked at
  std::atomic<bool> has_next{false};   // (any) a hint of next != nullptr, kept by the push that leaves it behind
  bool time_next_wake = false;         // for wake_latency
  std::uint8_t rare_mask = rare - 1;   // a pick is rare if these bits of its tick are zero
  std::atomic<std::uint64_t> tick{0};  // (any) counts picks: unchanged for a while means that one fiber computes
  counter started;                     // (any) fibers that were spawned from here
  counter ended;                       // (any) fibers that ended here; the sums over all give the live ones
  counter parked;                      // (any) how often a fiber blocked here
  counter stack_count;                 // (any) of `stacks`
  std::int64_t last_oldest = 0;        // when the oldest fresh fiber last had its turn
  random_source random;

  // --- how eagerly pushes here wake an idle worker (idle.cpp)
  std::atomic<std::uint32_t> wake_gap{0};   // (any) picks that must lie between two wakes; doubled by useless ones
  std::atomic<std::uint32_t> last_wake{0};  // the tick's lower half
  std::atomic<bool> firing{false};          // (any) its worker fires timers, and serves what they wake after that
  std::atomic<bool> overdue{false};  // (any) the monitor has seen something wait here: take it without further ado

  // --- fresh fibers that others keep from running: scheduler::watch_fresh()
  std::uint64_t begun = 0;         // fresh ones that have begun to run here
  std::int64_t watched_since = 0;  // when the 10 ms began; 0: they have not
  std::uint64_t picks_before = 0;  // the tick, and `begun`, at that time
  std::uint64_t begun_before = 0;
  std::size_t fewest_fresh = 0;  // how many there were at least when any 10 ms began, since there were none

  // --- their turns: scheduler::pick_held_up()
  std::int64_t turn_began = 0;     // 0: it has not
  std::size_t fresh_turns = 0;     // picks that are theirs
  std::size_t fresh_before = 0;    // how many there were when the turn began
  std::uint32_t ready_before = 0;  // how many were ready then
  std::uint32_t ready_turns = 0;   // picks, before those, that are of who was ready when the last turn ended
  std::uint32_t unneeded = 0;      // picks since somebody else was ready

  // --- queues
  ring ready;  // made runnable again: oldest first
  ring fresh;  // not started: the owner takes the newest (depth first), thieves the oldest
  timer_heap timers;
  static constexpr std::size_t stack_cache = 256;
  fiber* stacks[stack_cache];   // free ones, the warmest last
  std::size_t cold_stacks = 0;  // the first so many come from the pool, and have left the cache

  // --- for <coir/metrics.hpp> alone, all (any)
  counter fruitless;   // picks that found nothing
  counter steals;      // how often this processor took from another
  counter stolen;      // how many
  counter retaken;     // written under the scheduler's idle_lock_
  counter handed_off;  // written under the scheduler's idle_lock_
  wake_latency latency;

 private:
  unsigned index_;
  scheduler* home_;
  alignas(64) spin_lock lock_;
  std::atomic<worker*> owner_{nullptr};
};

}  // namespace coir::detail
