// The waker's half of the idle protocol: whether a push wakes a worker, and how. The rules are at the top of idle.cpp.
#include <new>
#include <utility>

#include <coir/detail/abi.hpp>

#include "base/futex.hpp"
#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI::detail {

// After a push on processor p, with idle_ != 0. A worker that is woken wakes the monitor if that sleeps: to wake both
// would take the pusher twice as long.
void scheduler::offer(processor& p) noexcept {
  const std::uint32_t idle = idle_.word();
  // A searcher may have looked here already. Then the monitor finds it.
  if (idle_.may_wake(idle & idle_set::count_mask) && idle_.searching() == 0 && !p.wakes.in_vain(coarse_time())) {
    p.note_offer();
    if (wake_one(&p)) return;
  }
  if ((idle & idle_set::monitor_sleeps) != 0) wake_monitor();
}

// The same after the running fiber has made one ready that now lies in `next`.
void scheduler::offer_next(worker& w, processor& p) noexcept {
  const std::uint32_t idle = idle_.word();
  const std::uint8_t habit = w.current->habit.load(std::memory_order_relaxed);
  next_state waits = next_state::waits;
  if (habit < waker_habit::parks && idle_.may_wake(idle & idle_set::count_mask) && idle_.searching() == 0 &&
      (habit == waker_habit::computes || !p.wakes.in_vain(coarse_time())) &&
      // By exchange: another thread may have taken it by now.
      p.next_is.compare_exchange_strong(waits, next_state::offered, std::memory_order_relaxed)) {
    if (wake_one(&p)) return;
    next_state offered = next_state::offered;
    p.next_is.compare_exchange_strong(offered, next_state::waits, std::memory_order_relaxed);
  }
  if ((idle & idle_set::monitor_sleeps) != 0) wake_monitor();
}

// Wakes a worker, unless `most` search already. True if a worker has been woken.
bool scheduler::wake_one(processor* by, std::uint32_t most) noexcept {
  return idle_.add_searcher_below(most) && wake_searcher(by);
}

// The woken worker has been counted as a searcher. `by`: the processor that something was pushed on.
bool scheduler::wake_searcher(processor* by) noexcept {
  idle_.lock();
  taken_worker taken;
  if (idle_.has_processor() && !stopping_.load(std::memory_order_relaxed)) taken = take_sleeper();
  worker* w = taken.who;
  if (w == nullptr) {
    // Before the lock is released: this count must not turn away the pushers of a worker that goes idle after this.
    idle_.remove_searcher();
    idle_.unlock();
    return false;
  }
  w->searching = true;
  w->woken = true;
  w->woken_by = by;
  const bool took_keeper = idle_.keeps(*w);
  if (!taken.new_thread) w->placement.keep_off_this_cpu(w->thread_id.load(std::memory_order_relaxed));
  processor& p = idle_.hand_over(*w);
  idle_.unlock();
  costs_.wakes.add();
  if (took_keeper) wake_monitor();  // no worker sleeps until the next deadline any more
  return start_taken(taken, p);
}

// Under idle_'s lock: takes a worker to hand a processor to. It is a sleeper, or one without a thread if no worker
// sleeps. Null: there is no memory; or there are as many workers as there may be, and some of their threads are about
// to end.
scheduler::taken_worker scheduler::take_sleeper() noexcept try {
  if (worker* w = idle_.take_sleeper()) return {w, false, idle_.polls(*w)};
  return {workers_.take(*this, idle_), true, false};
} catch (const std::bad_alloc&) {
  return {};
}

// The worker that take_sleeper() gave has been handed the processor: wakes it, or starts its thread. False: there is no
// thread to be had.
bool scheduler::start_taken(taken_worker taken, processor& p) noexcept {
  worker& w = *taken.who;
  if (!taken.new_thread) {
    w.awake.store(1, std::memory_order_release);
    if (taken.in_poller) {
      poller_.ring();
    } else {
      costs_.futex_calls.add();
      futex_wake(w.awake);
    }
    return true;
  }
  const int error = worker_supply::start(w);
  if (error == 0) return true;
  // The workers that there are do the work, and a later push, or the monitor, tries again.
  workers_.report(error);
  p.give_to(nullptr);
  idle_.lock();
  w.held = nullptr;
  w.started = false;
  queues_.inject_all_of(p);
  idle_.put(p);
  if (std::exchange(w.searching, false)) idle_.remove_searcher();
  w.woken = false;
  const bool all_idle = idle_.all_idle();
  const bool sleeper = idle_.sleepers() != 0;
  const bool unkept = idle_.unkept();
  idle_.unlock();
  heavy_fence();  // pairs with the light one after each push
  if (sleeper && (unkept || work_visible())) wake_one(nullptr);
  wake_monitor();  // it tries again
  if (all_idle) note_quiescent();
  return false;
}

}  // namespace coir::detail
