#include <algorithm>
#include <mutex>

#include <coir/detail/abi.hpp>

#include "base/clock.hpp"
#include "sched/switch.hpp"

// Firing timers. Each processor has a heap of them (timer_heap.hpp), which is fired by
//   its worker               between two picks, and when it has run dry
//   a worker that searches   if the processor is busy and its timers are late by busy_timer_slack
//   any worker               if the processor is idle. One sleeper wakes in time: the keeper (idle_set.hpp)

namespace coir::inline COIR_ABI::detail {

bool scheduler::timers_due(const worker& w, const processor& p) const noexcept {
  if (w.current == nullptr) return false;  // on the native stack some have just been fired
  const deadline earliest = std::min(p.timers.earliest(), idle_.earliest());
  return earliest != no_deadline && earliest <= clock_.now();
}

namespace {

// A worker fires this many batches of timers, runs some of the fibers that they woke, and comes back for the rest. So
// the woken fibers run while they are in the cache. And the monitor would take a queue that grows for long, with no
// fiber of it served, for one that needs another worker.
constexpr int fillings_at_a_time = 4;

/// Fires the due timers: up to fillings_at_a_time batches, and more while `runs` has nothing to run. All if `runs` is
/// null. lock() may fail. Returns whether any were due.
template <class Lock, class Unlock>
bool fire_due(timer_heap& timers, deadline time, const processor* runs, Lock lock, Unlock unlock) noexcept {
  bool fired = false;
  due_timers due;
  const auto wants_more = [&] {
    return runs == nullptr || (runs->ready.empty() && runs->fresh.empty() && runs->yielded.empty());
  };
  for (int i = 0; (i < fillings_at_a_time || wants_more()) && timers.earliest() <= time; ++i) {
    if (!lock()) break;
    due.pop(timers, time);
    unlock();
    due.fire();
    fired = fired || !due.empty();
    if (!due.full()) break;
  }
  return fired;
}

bool fire_due_of(processor& p, deadline time, const processor* runs) noexcept {
  // If the lock fails, the timers wait for the next search, or for the monitor.
  return fire_due(p.timers, time, runs, [&] { return p.try_lock(); }, [&] { p.unlock(); });
}

}  // namespace

// For a busy processor: fires all, because what is left waits until the processor's fiber stops.
void scheduler::fire_all(processor& p, deadline time) noexcept { fire_due_of(p, time, nullptr); }

// Fires some of the worker's own due timers and of those of idle processors. Returns whether there were any.
bool scheduler::run_due_timers(worker& w) noexcept {
  processor& mine = *w.held;
  const deadline of_idle = idle_.earliest();
  if (mine.timers.earliest() == no_deadline && of_idle == no_deadline) return false;
  const deadline time = clock_.now();
  const auto enter = [&] {
    w.enter_native();
    return true;
  };
  mine.firing.store(true, std::memory_order_relaxed);
  bool fired = fire_due(mine.timers, time, &mine, enter, [&] { w.leave(); });
  if (of_idle <= time) {
    for (const auto& p : processors_)
      if (p->owner() == nullptr) fired = fire_due_of(*p, time, &mine) || fired;
    const std::lock_guard locked(idle_);
    idle_.publish_earliest();
  }
  mine.firing.store(false, std::memory_order_relaxed);
  return fired;
}

// Under idle_'s lock. When a sleeper has to fire timers: those of an idle processor when they are due, those of a busy
// one when its worker should have done so.
deadline scheduler::deadline_for_sleepers() const noexcept {
  deadline earliest = no_deadline;
  for (const auto& p : processors_) {
    const deadline d = p->timers.earliest();
    if (d == no_deadline) continue;
    const std::int64_t slack = p->owner() == nullptr ? 0 : busy_timer_slack;
    earliest = std::min(earliest, std::min(d, no_deadline - 1 - slack) + slack);
  }
  return earliest;
}

}  // namespace coir::detail
