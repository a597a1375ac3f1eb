// The queues that all processors share: runnables from outside of a processor (injected), and batches that did not fit
// a processor's rings (spilled). The holder of a processor pushes to its rings by way of this. It takes from here when
// the processor has run dry, or out of turn (pick.cpp).
//
// Invariants:
//  1. A runnable is in one place: a processor's `next`, one of its rings, or here.
//  2. A runnable here is visible to every worker that looks before it sleeps: empty() is exact for pushes before the
//     fences of the idle protocol.
//  3. A ring that is full spills half of its work. Of those that are ready or have yielded it spills the newest, since
//     those at the front have waited longest and are to run next. Of the fresh ones it spills the oldest, since the
//     owner goes on with the newest.
//
// Each queue has a lock of its own. They are innermost: nothing else is locked inside.
#pragma once

#include <cstddef>
#include <cstdint>

#include <coir/detail/abi.hpp>

#include "sched/injection_queue.hpp"
#include "sched/processor.hpp"
#include "sched/spill_queue.hpp"

namespace coir::inline COIR_ABI::detail {

class shared_queues {
 public:
  /// `processors`: how many share these queues.
  explicit shared_queues(std::size_t processors) noexcept : processors_(processors) {}

  bool empty() const noexcept { return injected_.empty() && spilled_ready_.empty() && spilled_fresh_.empty(); }

  void inject(runnable* r) noexcept { injected_.push(r); }

  /// Injects all work of a processor that has no owner and is about to be idle.
  void inject_all_of(processor& p) noexcept;

  // ---- by the holder of p

  [[gnu::always_inline]] inline void push_ready(processor& p, runnable* r) noexcept {
    if (p.ready.full()) [[unlikely]]
      spill_ready(p);
    p.ready.push_back(r);
  }

  [[gnu::always_inline]] inline void push_yielded(processor& p, runnable* r) noexcept {
    if (p.yielded.full()) [[unlikely]]
      spill_yielded(p);
    p.yielded.push_back(r);
  }

  [[gnu::always_inline]] inline void push_fresh(processor& p, runnable* r) noexcept {
    if (p.fresh.full()) [[unlikely]]
      spill_fresh(p);
    p.fresh.push_back(r);
  }

  /// Moves a share of the injected work to p and returns the oldest. Null: there is none.
  runnable* pick_injected(processor& p) noexcept { return injected_.empty() ? nullptr : take_share(p); }

  /// The oldest batch goes to the end of p's ready queue. False: there is none.
  bool fetch_ready(processor& p) noexcept { return !spilled_ready_.empty() && take_ready(p); }

  /// The oldest batch goes to p, the oldest of it is returned. Null: there is none.
  runnable* pick_spilled_fresh(processor& p) noexcept { return spilled_fresh_.empty() ? nullptr : take_fresh(p); }
  runnable* pick_one_spilled_fresh() noexcept { return spilled_fresh_.pop_one(); }

  // ---- for the monitor, metrics and dumps
  injection_queue& injected() noexcept { return injected_; }
  spill_queue& spilled_ready() noexcept { return spilled_ready_; }
  spill_queue& spilled_fresh() noexcept { return spilled_fresh_; }

 private:
  void spill_ready(processor& p) noexcept;
  void spill_yielded(processor& p) noexcept;
  void spill_fresh(processor& p) noexcept;
  runnable* take_share(processor& p) noexcept;
  bool take_ready(processor& p) noexcept;
  runnable* take_fresh(processor& p) noexcept;

  injection_queue injected_;
  spill_queue spilled_ready_;  // and those that have yielded: they come back as ready ones
  spill_queue spilled_fresh_;
  const std::size_t processors_;
};

}  // namespace coir::detail
