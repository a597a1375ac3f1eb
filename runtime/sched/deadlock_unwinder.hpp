// Finds that a stuck runtime (quiescence.cpp) is in a deadlock, reports it, and unwinds it.
//
// A stuck runtime is in a deadlock only if nothing else could wake a fiber: every runtime of the process is quiescent
// without timers, and every thread is a runtime's own or blocked in run() or wait() for something that has not come
// (registry.hpp).
//
// A deadlock is unwound from the leaves of the tree of spawns, because a fiber may hold references into the frame of
// the fiber that spawned it. When a deadlock is found, all sleeping fibers are marked: their next attempt to block
// throws. Only the deepest fibers (runnable::depth) are woken and told by their stop tokens. The next depth follows
// when the runtime is quiescent again, without timers: the woken fibers have then ended, or they wait in their turn.
// This quiescence is not checked for certainty again. A fiber that unwinds may have started a thread or a timer, or may
// wait for something that a fiber above it holds. So after longest_step all remaining fibers are woken at once, in any
// order.
//
//   unwinding_     step                                    next value
//   null           begin_if_certain(), if it is certain:   the remaining fibers, or null if all were of one depth
//                  notes, marks, wakes the deepest
//   remaining      proceed(), if quiescent:                the remaining fibers, or null
//                  wakes the deepest of them; or, late,
//                  all of them
//
// Invariant: every fiber in unwinding_ has been marked, and the unwinder has woken none of them. While unwinding_ is
// not empty, at least one thread stays in scheduler::wait_until(), because the threads there take the steps.
//
// unwinding_ is guarded by the registry's lock. The decision and each step are taken under that lock. So while one
// runtime looks at its sleepers, no other runtime is about to wake them. No step after the first needs memory.
//
// Only the unwinder's own wake-ups follow this order. A fiber may overtake the fibers below it, because nothing holds
// back a wake-up by another fiber. For example, a child that it joins ends: it then continues to its next attempt to
// block, while other children still unwind. To hold it back would need a check at each wake-up. All depths beyond
// `deepest` count as one depth.
//
// Locking is no cancellation point. But a fiber that is blocked in a lock when the deadlock is found is woken too,
// because otherwise nothing would end it. A fiber that begins to wait for a lock while it unwinds is not marked by
// that: it gets the lock when the fibers above it unwind. If it does not, that is another deadlock, and the fiber is
// blocked when that one is found.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>

namespace coir::inline COIR_ABI::detail {

class scheduler;

class deadlock_unwinder {
 public:
  deadlock_unwinder() noexcept;
  ~deadlock_unwinder();
  deadlock_unwinder(const deadlock_unwinder&) = delete;
  deadlock_unwinder& operator=(const deadlock_unwinder&) = delete;

  /// Begins to unwind `home`, whose unwinder this is, if it is in a deadlock for certain and is not being unwound
  /// already. Returns false if a fiber or thread may still act. Throws std::bad_alloc; then it has woken no fiber.
  bool begin_if_certain(scheduler& home);

  /// Takes the next step if it is due. Returns when to call again if nothing happens before; no_deadline if there is no
  /// next step.
  deadline proceed(scheduler& home) noexcept;

  /// The report of a deadlock that has been unwound; null if there was none. take_report() gives it away.
  std::shared_ptr<const std::string> report() noexcept;
  std::shared_ptr<const std::string> take_report() noexcept;

  struct unwinding;

 private:
  void begin(scheduler& home, std::unique_ptr<unwinding> noted, std::shared_ptr<const std::string> report) noexcept;
  void step(scheduler& home, bool all) noexcept;

  std::unique_ptr<unwinding> unwinding_;
  std::atomic<bool> is_unwinding_{false};
  std::mutex report_lock_;  // lock order: the innermost but for the allocator's
  std::shared_ptr<const std::string> report_;
};

}  // namespace coir::detail
