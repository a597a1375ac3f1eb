// A processor: the right to run fibers, and what belongs to it: run queues, timers, stacks, a random source. There are
// options::processors of them; a worker (an OS thread) needs to hold one to run a fiber.
//
// The holder of a processor may touch all of it with plain loads and stores. The holder is
//   - its owner, the worker in `owner`, while that worker is inside its runtime bracket (worker.hpp);
//   - a thread that succeeded in try_lock(): a thief, a worker that fires another processor's timers, the monitor;
//   - the holder of lock_ while `owner` is null (idle processors).
// A fiber that computes or blocks its thread for long loses its worker's processor (retake.cpp).
// `owner` changes only under lock_. Members marked (any) are read by others as hints.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/spin_lock.hpp>
#include <coir/detail/start_record.hpp>

#include "base/counter.hpp"
#include "base/random.hpp"
#include "sched/run_ring.hpp"
#include "sched/wake_latency.hpp"
#include "sched/wake_record.hpp"
#include "timer/timer_heap.hpp"

namespace coir::inline COIR_ABI::detail {

struct fiber;
class scheduler;
class worker;

/// What the monitor asks a processor to serve out of turn, since it has waited from one look to the next (pick.cpp).
/// The monitor and the processor change it at the same time, so both use read-modify-writes.
namespace attention {
inline constexpr std::uint8_t due_timers = 1;
inline constexpr std::uint8_t shared = 2;    // the injection queue, and spilled work
inline constexpr std::uint8_t ready = 4;     // the oldest ready one
inline constexpr std::uint8_t yielded = 8;   // the oldest that has yielded
inline constexpr std::uint8_t fresh = 16;    // the oldest that has not started
inline constexpr std::uint8_t starved = 32;  // all that have not started
inline constexpr std::uint8_t turn = 64;     // set by the owner: a turn of the last two is under way
inline constexpr std::uint8_t events = 128;  // of the poller, which no thread has asked
}  // namespace attention

/// (any) The contents of `next`.
enum class next_state : std::uint8_t {
  none,
  waits,   // a hint, kept by the push that leaves it behind
  offered  // and a worker has been woken to take it
};

class alignas(64) processor {
 public:
  using ring = run_ring<256>;

  explicit processor(unsigned index, scheduler* home = nullptr) noexcept
      : random(0x2545f4914f6cdd1dU * (index + 1)), index_(index), home_(home) {}

  unsigned index() const noexcept { return index_; }
  scheduler* home() const noexcept { return home_; }

  /// For threads other than the owner. Takes hold of the processor, unless another thread has it or its owner does not
  /// leave the runtime soon. While it is held, the owner waits at its next runtime entry. Keep it short.
  bool try_lock() noexcept;
  void unlock() noexcept;

  /// Changes the owner; for the idle protocol.
  void give_to(worker* w) noexcept;

  /// Called by the thread that has locked it with try_lock(). Takes the processor away from its owner, which finds out
  /// at its next runtime entry, gives it to a worker that sleeps (null: to none), and unlocks.
  void move_to(worker* successor, const char* why) noexcept;

  /// The owner gives it up while it runs a fiber, outside its bracket. False: it has lost it already.
  bool leave_owner(worker& w, worker* successor) noexcept;

  worker* owner() const noexcept { return owner_.load(std::memory_order_relaxed); }

  /// By the holder, for the worker that is about to be woken (scheduler::steal_from).
  void note_offer() noexcept {
    wakes.offered_ready.store(ready.head(), std::memory_order_relaxed);
    wakes.offered_fresh.store(fresh.head(), std::memory_order_relaxed);
    wakes.offered_yielded.store(yielded.head(), std::memory_order_relaxed);
  }

  /// By the holder: takes out and returns the contents of `next`, or null.
  runnable* take_next() noexcept {
    next_is.store(next_state::none, std::memory_order_relaxed);
    return std::exchange(next, nullptr);
  }

  // --- hot: what a switch touches
  runnable* next = nullptr;                           // just made runnable: runs next, on its waker's time slice
  std::atomic<next_state> next_is{next_state::none};  // (any)
  std::atomic<std::uint8_t> attention{0};             // (any) the kinds to be served out of turn
  bool time_next_wake = false;                        // for wake_latency
  std::atomic<std::uint64_t> tick{0};  // (any) counts picks: unchanged for a while means that one fiber computes
  counter started;                     // (any) fibers that were spawned from here
  counter ended;                       // (any) fibers that ended here; the sums over all give the live ones
  counter parked;                      // (any) how often a fiber blocked here
  counter begun;                       // (any) fresh ones that have begun to run here
  counter stack_count;                 // (any) of `stacks`
  counter io_begun;                    // (any) waits for descriptors that began here, and that ended here
  counter io_ended;
  random_source random;

  wake_record wakes;                 // (any)
  std::atomic<bool> firing{false};   // (any) its worker fires timers, and then runs the fibers that they wake
  std::atomic<bool> overdue{false};  // (any) the monitor has seen something wait here: take it without further ado

  std::int64_t counted_at = 0;  // the coarse time of the last pick that was a counted one

  bool asks_poller = false;  // before the next pick on the native stack
  bool more_events = false;  // the kernel has more: the same, once the ready ring has room for half a batch
  std::uint8_t round = 0;    // the requested kinds that have not been served in this round

  // --- turns (pick.cpp), while attention::turn is set
  std::uint32_t yielded_turns = 0;  // picks that belong to those that have yielded
  bool fresh_turn = false;          // the turn is that of the fresh ones
  std::uint32_t ready_limit = 0;    // those that are ready go on when there are so many
  std::uint32_t ready_turns = 0;    // picks, before the next fresh one, that belong to those that are ready
  std::uint32_t unneeded = 0;       // picks in a row in which nobody else was ready

  // --- queues
  ring ready;    // woken: oldest first
  ring yielded;  // oldest first
  ring fresh;    // not started: the owner takes the newest (depth first), thieves the oldest
  timer_heap timers;
  static constexpr std::size_t stack_cache = 256;
  fiber* stacks[stack_cache];   // free ones, the warmest last
  std::size_t cold_stacks = 0;  // the first so many come from the pool, and have left the cache

  // --- for <coir/metrics.hpp> alone, all (any)
  counter fruitless;   // picks that found nothing
  counter steals;      // how often this processor took from another
  counter stolen;      // how many
  counter retaken;     // written under the idle set's lock
  counter handed_off;  // written under the idle set's lock
  wake_latency latency;

 private:
  unsigned index_;
  scheduler* home_;
  alignas(64) spin_lock lock_;
  std::atomic<worker*> owner_{nullptr};
};

}  // namespace coir::detail
