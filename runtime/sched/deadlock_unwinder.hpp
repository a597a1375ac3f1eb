// Finds that a stuck runtime (quiescence.cpp) is in a deadlock, reports it, and unwinds it.
//
// Stuck is deadlocked only if nobody else could wake a fiber: every runtime of the process is quiescent without timers,
// and every thread is a runtime's own or blocked in run() or wait() for something that has not come (registry.hpp).
//
// A deadlock is unwound from the leaves: fibers hold references into the frames of those that spawned them, whose
// locals must not go first. When it is found, all who sleep are marked: their next attempt to block throws. Only the
// deepest (runnable::depth) are woken and told by their stop tokens. The next are when those have ended, or wait in
// their turn: when the runtime is quiescent again, without timers. That need not be certain once more, only soon: a
// fiber that unwinds may have started a thread or a timer, or wait for something that one above it holds. So after
// longest_step all the others are woken at once, in whatever order.
//
//   unwinding_     who                                     goes on to
//   null           begin_if_certain(), if it is:           the remaining ones, or null if all were of one depth
//                  notes, marks, wakes the deepest
//   remaining      proceed(), if quiescent:                the remaining ones, or null
//                  wakes the deepest of them; or, late,
//                  all of them
//
// Invariant: all whom unwinding_ names have been marked, and none of them has been woken by the unwinder. While it
// names somebody, one thread at least stays in scheduler::wait_until(): it is the threads there that take the steps.
//
// unwinding_ is guarded by the registry's lock, under which the decision and each step are taken: so while one runtime
// looks at its sleepers, none of another's is about to wake them. Nothing needs memory after the first step.
//
// The order is that of the unwinder's wakes. A fiber may overtake those below it, since nothing holds back a wake by
// somebody else: if a child that it joins has ended, or does while it unwinds what it waits for, it goes on, to its
// next attempt to block, while other children that it does not wait for still unwind. To hold it back would take a look
// at each wake. Depths beyond `deepest` are one depth.
//
// Locking is no cancellation point, but who is blocked in a lock when a deadlock is found is woken too, else nothing
// would end it. Who begins to wait for a lock while it unwinds is not marked by that: it gets the lock when those above
// it unwind; if not, that is another deadlock, and it was blocked when that was found.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include <coir/detail/park.hpp>

namespace coir::detail {

class scheduler;

class deadlock_unwinder {
 public:
  deadlock_unwinder() noexcept;
  ~deadlock_unwinder();
  deadlock_unwinder(const deadlock_unwinder&) = delete;
  deadlock_unwinder& operator=(const deadlock_unwinder&) = delete;

  /// If `home`, whose unwinder this is, is in a deadlock for certain: reports that and begins to unwind it, unless that
  /// is under way. False if somebody may still act. Throws std::bad_alloc, and has woken nobody then.
  bool begin_if_certain(scheduler& home);

  /// Takes the next step, if it is time for that. no_deadline: there is none; else when to come again if nothing
  /// happens before.
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
