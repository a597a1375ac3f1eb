// Retaking a processor: how a fiber that computes, or blocks its thread, is kept from holding up the others.
//
// The monitor takes the processor from the worker (monitor.hpp says when) and gives it to another one. The fiber goes
// on on its own thread, *lost*, until its next runtime entry finds the processor gone:
//
//   entry                        lost
//   park                         no processor is needed to park: the worker becomes a spare. A timer goes to the heap
//                                of another processor.
//   yield, end of blocking(),    rejoin(): an idle processor, else the injection queue; the worker becomes a spare
//   end of a fiber               its stack goes to the shared store; the worker becomes a spare
//   go, spawn, making ready      an idle processor; else through the injection queue, as from a foreign thread, and the
//                                fiber stays lost
//
// A call that does not block never waits for a processor and never moves the fiber: its caller may hold a lock of the
// operating system, and a waker may hold a primitive's (park.hpp).
//
// The states of a worker, lost among them, are in idle_set.hpp.
//
// Invariants:
//  1. A processor is retaken only while its lock is held through try_lock(): its worker is outside the bracket then,
//     and finds interrupt == retaken at the next entry. So a worker inside its bracket is never disturbed. The fences
//     are those of the bracket (worker.hpp).
//  2. Only from a worker that runs a fiber: the native stack, where the scheduler itself works, is never lost.
//  3. An idle processor has nothing in its rings. A processor that changes hands goes to another worker at once. If
//     there is none to be had, its rings are emptied into the injection queue first (inject_all_of()).
//  4. A thread that makes a processor idle without going to sleep itself makes sure that a sleeper keeps its timers.
//
// Rejected: a lost fiber waits for a processor on its thread. Each return would cost two thread switches, and the fiber
// may hold a primitive's lock where it waits.
// Rejected: a signal preempts a computing fiber. The fiber may be anywhere, in malloc too.
#include <utility>

#include <coir/detail/abi.hpp>

#include "base/futex.hpp"
#include "base/report.hpp"
#include "sched/events.hpp"
#include "sched/switch.hpp"

namespace coir::inline COIR_ABI::detail {

// By the monitor: `from` has been at `tick` for too long.
bool scheduler::retake(processor& p, worker& from, std::uint64_t tick) noexcept {
  idle_.lock();
  taken_worker successor;
  if (!stopping_.load(std::memory_order_relaxed) && p.try_lock()) {
    if (p.owner() == &from && from.current != nullptr && p.tick.load(std::memory_order_relaxed) == tick)
      successor = take_sleeper();
    if (successor.who == nullptr) p.unlock();
  }
  if (successor.who == nullptr) {
    idle_.unlock();
    return false;
  }
  p.move_to(successor.who, "retaken");
  p.retaken.add();
  successor.who->held = &p;
  idle_.add_lost();
  idle_.end_keeping(*successor.who);
  idle_.unlock();
  return start_taken(successor, p);
}

// For a lost worker, inside a fiber or between two.
bool scheduler::take_idle_for(worker& w) noexcept {
  idle_.lock();
  const bool found = idle_.has_processor();
  if (found) {
    idle_.remove_lost();
    idle_.hand_over(w);
  }
  idle_.unlock();
  if (found) wake_monitor();  // it may sleep, and this worker does not search
  if (found && w.watched()) [[unlikely]]
    trace_regained(w);
  return found;
}

processor* scheduler::borrow(worker& w) noexcept {
  for (backoff wait;; wait()) {
    if (take_idle_for(w)) return nullptr;
    for (const auto& p : processors_) {
      if (p->owner() == nullptr || !p->try_lock()) continue;
      if (p->owner() != nullptr) return p.get();  // when it goes idle its timers are looked at
      p->unlock();
    }
  }
}

[[gnu::noinline]] void scheduler::rejoin(fiber& f, worker& w) noexcept {
  if (take_idle_for(w)) return;
  f.state.store(run_state::queued, std::memory_order_relaxed);
  w.what_after = worker::after::requeued;
  switch_to(w, &f, nullptr);
  f.on->leave();
}

void scheduler::switch_away_without(fiber& f, worker& w) noexcept {
  outside_.parked.fetch_add(1, std::memory_order_relaxed);
  switch_to(w, &f, nullptr);
}

void scheduler::end_without(fiber& f, worker& w) noexcept {
  // Seen under idle_'s lock, once this worker is no longer lost. release: see snapshot().
  if (!f.carried_on) outside_.ended.fetch_add(1, std::memory_order_release);
  f.state.store(run_state::free, std::memory_order_relaxed);
  w.what_after = worker::after::retired;
  switch_to(w, &f, nullptr);
}

// On the native stack, the fiber gone. Returns with a processor (true), or when the runtime ends (false).
bool scheduler::sleep_as_spare(worker& w) noexcept {
  idle_.lock();
  idle_.remove_lost();
  idle_.add_sleeper(w);
  idle_.unlock();
  return sleep_until_assigned(w);
}

bool scheduler::hand_off(worker& w) noexcept {
  processor* p = w.enter();
  if (p == nullptr) return false;
  const bool needed = p->next != nullptr || !p->ready.empty() || !p->yielded.empty() || !p->fresh.empty() ||
                      p->timers.live() != 0 || !queues_.empty();
  w.leave();
  idle_.lock();
  const taken_worker taken = needed ? take_sleeper() : taken_worker{};
  worker* successor = taken.who;
  const bool took_keeper = successor != nullptr && idle_.keeps(*successor);
  if (!p->leave_owner(w, successor)) {  // the monitor was faster
    if (successor != nullptr) {
      if (taken.new_thread)
        successor->started = false;
      else
        idle_.add_sleeper(*successor);
    }
    idle_.unlock();
    return true;
  }
  p->handed_off.add();
  idle_.add_lost();
  if (successor != nullptr) {
    successor->held = p;
    idle_.end_keeping(*successor);
    idle_.unlock();
    if (took_keeper) wake_monitor();
    start_taken(taken, *p);
    return true;
  }
  if (needed) queues_.inject_all_of(*p);  // no memory for another worker
  idle_.put(*p);
  // This worker does not go to sleep. So if no other sleeps until the next deadline, one has to be woken for that.
  const bool unkept = idle_.unkept();
  idle_.unlock();
  heavy_fence();  // pairs with the light one after each push, as in sleep_until_assigned()
  if (unkept || work_visible()) wake_one(nullptr);
  return true;
}

[[gnu::noinline]] blocking_section::blocking_section() noexcept : handed_off_(false) {
  worker* w = current_worker();
  if (w != nullptr && w->current != nullptr && w->home->explored_by() == nullptr) handed_off_ = w->home->hand_off(*w);
}

// The fiber may be on another worker now, if it has blocked inside the section as fibers do.
[[gnu::noinline]] blocking_section::~blocking_section() {
  if (!handed_off_) return;
  worker& w = *current_worker();
  if (w.enter() != nullptr)
    w.leave();
  else
    w.home->rejoin(*w.current, w);
}

}  // namespace coir::detail
