// A worker: an OS thread that runs fibers while it holds a processor. Its native stack runs the search for work
// (scheduler::work); fibers switch to each other directly.
//
// The runtime bracket. A worker may touch its processor only between enter() and leave(). The protocol is Dekker's with
// an asymmetric fence:
//
//   worker, enter:   in_runtime = 1;  light fence;  if (interrupt) step aside, try again
//   worker, leave:   in_runtime = 0 (release)
//   other, lock:     interrupt = ticket;  wait a moment for stepped_aside == ticket;
//                    else heavy fence and wait a moment for in_runtime == 0;  else give up
//   other, unlock:   interrupt = 0 (release)
//
// A processor may also be taken away for good while the worker is outside (retake.cpp): interrupt then keeps the value
// `retaken`, and enter() returns null until the worker is given another one. So every entry that a fiber can make has a
// path without a processor.
//
// Invariant: never both inside. If the worker's store of in_runtime comes late for the other's load, then, because of
// the fences, the other's ticket comes in time for the worker's load of interrupt. stepped_aside names the ticket that
// it answers, so that an old answer is never taken for a new one. A bracket stays open across a switch of fibers:
// the next context closes it. This also keeps thieves from taking a fiber whose context is not saved yet (a fiber that
// yields is pushed before the switch).
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>

#include "base/asymmetric_fence.hpp"
#include "base/context_switch.hpp"
#include "base/exception_state.hpp"
#include "base/internal_memory.hpp"
#include "base/native_thread.hpp"
#include "fiber/fiber.hpp"
#include "sched/wake_placement.hpp"

namespace coir::inline COIR_ABI::detail {

class processor;
class scheduler;
class trace_ring;

/// What a searching worker saw of a processor, and since when.
struct victim_sample {
  std::uint32_t fresh_head = 0;
  std::uint32_t ready_head = 0;
  std::uint32_t yielded_head = 0;
  std::uint64_t tick = 0;
  std::int64_t fresh_since = 0;
  std::int64_t ready_since = 0;
  std::int64_t yielded_since = 0;
  std::int64_t tick_since = 0;
};

class alignas(64) worker : public internal_object {
 public:
  /// `check_locks`: COIR_DEBUG=heldlock.
  explicit worker(scheduler& s, bool check_locks = false) noexcept
      : watches_(check_locks ? locks_checked : 0), home(&s) {}

  /// Whether somebody wants to know what its fibers do: a trace (events.hpp), or the check of held locks
  /// (held_locks.hpp).
  bool watched() const noexcept { return watches_.load(std::memory_order_relaxed) != 0; }
  bool checks_locks() const noexcept { return (watches_.load(std::memory_order_relaxed) & locks_checked) != 0; }

  /// (any) Where its trace is recorded; null while none is.
  trace_ring* trace() const noexcept {
    return reinterpret_cast<trace_ring*>(watches_.load(std::memory_order_acquire) & ~locks_checked);
  }
  void set_trace(trace_ring* ring, std::memory_order order) noexcept {
    // Whether locks are checked never changes.
    watches_.store(reinterpret_cast<std::uintptr_t>(ring) | (watches_.load(std::memory_order_relaxed) & locks_checked),
                   order);
  }

  /// Opens the bracket and returns the processor; null, with the bracket closed, if it was retaken.
  [[gnu::always_inline]] inline processor* enter() noexcept {
    processor* p = enter_undisturbed();
    return p != nullptr ? p : step_aside();
  }

  /// Null: it was retaken, or another thread wants it for a moment. Then nothing is decided: call enter() at once.
  [[gnu::always_inline]] inline processor* enter_undisturbed() noexcept {
    in_runtime_.store(1, std::memory_order_relaxed);
    light_fence();  // pairs with the heavy one in processor::try_lock()
    // acquire: pairs with processor::unlock(), so that this worker sees what the last holder did.
    if (interrupt_.load(std::memory_order_acquire) != 0) [[unlikely]]
      return nullptr;
    processor* p = held;
    if (p == nullptr) __builtin_unreachable();
    return p;
  }

  /// The same where it cannot have been retaken: on the native stack.
  [[gnu::always_inline]] inline processor& enter_native() noexcept { return *enter(); }

  // release: pairs with the acquire load in processor::try_lock(), so that the next holder sees what was done.
  [[gnu::always_inline]] inline void leave() noexcept { in_runtime_.store(0, std::memory_order_release); }

  /// By its own thread, for checks.
  bool in_bracket() const noexcept { return in_runtime_.load(std::memory_order_relaxed) != 0; }

  /// Work for the context that was switched away from. The next context does it.
  enum class after : std::uint8_t { nothing, parked, retired, requeued };

  // --- of this thread alone
  processor* held = nullptr;  // assigned by the waker while this worker sleeps; nulled by the thread that retakes it
  fiber* current = nullptr;   // null on the native stack
  machine_context* save_to = nullptr;  // where the context that was switched away from belongs
  after what_after = after::nothing;
  fiber* left = nullptr;                      // the fiber that was switched away from
  start_record* unstarted = nullptr;          // for the native stack, which is switched to: it makes a stack for it
  void (*release)(void*) noexcept = nullptr;  // parked: unlocks what the sleeper held; null: a spin_lock
  void* release_arg = nullptr;                // for release(), or the spin_lock
  exception_state* exceptions = nullptr;      // the thread's

 private:
  std::atomic<std::uintptr_t> watches_;  // (any) see watched(); here for its cache line

 public:
  exception_state native_exceptions;
  machine_context native = nullptr;
  scheduler* home;
  std::uint64_t next_id = 0;  // fiber ids come in blocks
  std::uint64_t last_id = 0;
  bool searching = false;
  std::uint32_t brought = 0;               // from the poller, beside the one that it runs first
  bool woken_by_one_event = false;         // when it slept in the poller last
  bool woken = false;                      // by a push, and has not found work yet
  processor* woken_by = nullptr;           // where that push was; null: elsewhere
  internal_vector<victim_sample> samples;  // one a processor, for stealing
  [[no_unique_address]] tsan_fiber tsan{};
  [[no_unique_address]] asan_stack asan;

  // --- idle protocol, under the idle set's lock but for the futex word
  std::atomic<std::uint32_t> awake{0};
  wake_placement placement;
  std::atomic<bool> started{false};  // its thread lives, or is being started
  native_thread thread;

  // --- (any) for the trace: when the processor was taken away, until the worker has recorded it; 0: it was not
  std::atomic<std::uint64_t> lost_at{0};
  std::atomic<const char*> lost_why{""};

  // --- (any) for the monitor: written by the thread itself before it first holds a processor
  std::atomic<int> thread_id{0};
  clockid_t cpu_clock{};

 private:
  friend class processor;

  static constexpr std::uintptr_t locks_checked = 1;           // beside the ring's address
  static constexpr std::uint64_t retaken = ~std::uint64_t{0};  // no ticket has this value

  processor* step_aside() noexcept;

  alignas(64) std::atomic<std::uint32_t> in_runtime_{0};  // written by this worker
  std::atomic<std::uint64_t> stepped_aside_{0};           // written by this worker
  std::atomic<std::uint64_t> interrupt_{0};               // written by the holder of the processor's lock_
};

// initial-exec: one load from the thread pointer, even in a shared library.
extern constinit thread_local worker* worker_of_this_thread __attribute__((tls_model("initial-exec")));

/// For functions that are never inlined themselves and ask once, before any switch.
[[gnu::always_inline]] inline worker* current_worker_at_entry() noexcept {
  asm volatile("" ::: "memory");
  return worker_of_this_thread;
}

/// The calling thread's worker, null for a foreign thread. Never inlined: a fiber that calls it again after a switch
/// must not get the answer of the thread it was on before.
worker* current_worker() noexcept;
void set_current_worker(worker* w) noexcept;

inline fiber* current_fiber() noexcept {
  const worker* w = current_worker();
  return w != nullptr ? w->current : nullptr;
}

}  // namespace coir::detail
