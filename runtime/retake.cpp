// Retaking a processor: how a fiber that computes, or blocks its thread, is kept from holding up the others.
//
// The monitor takes the processor from the worker (monitor.cpp says when) and gives it to another one. The fiber goes
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
// What does not block never waits for a processor and never moves the fiber: its caller may hold a lock of the
// operating system, and a waker may hold a primitive's (park.hpp).
//
// States of a worker, with who moves it on; all transitions under idle_lock_:
//   running   owns a processor                          -> lost: retake(), hand_off()   -> asleep: release_and_sleep()
//   lost      runs a fiber, owns none, in lost_         -> running: take_idle_for()     -> asleep: sleep_as_spare()
//   asleep    in sleepers_ (or its thread not started)  -> running: whoever hands it a processor; retake() among them
//
// Invariants:
//  1. A processor is retaken only while its lock is held through try_lock(): its worker is outside the bracket then,
//     and finds interrupt == retaken at the next entry. So who is inside is never disturbed; the fences are those of
//     the bracket (worker.hpp).
//  2. Only from a worker that runs a fiber: the native stack, where the scheduler itself works, is never lost.
//  3. An idle processor has nothing in its rings: one that changes hands goes to another worker at once; if there is
//     none to be had its rings are emptied into the injection queue first (share_all()).
//  4. Whoever makes a processor idle without going to sleep itself sees to it that somebody sleeps until its timers.
//  5. A lost fiber is live: while lost_ != 0 nothing is quiescent, hence neither drained nor deadlocked.
//
// Rejected: a lost fiber that waits, on its thread, for a processor (each return would cost two thread switches, and a
// primitive's lock may be held where it waits); a signal that preempts a computing fiber (it may be anywhere, in malloc
// too).
#include <utility>

#include "futex.hpp"
#include "report.hpp"
#include "switch.hpp"
#include "trace.hpp"

namespace coir::detail {

// By the monitor: `from` has been at `tick` for too long.
bool scheduler::retake(processor& p, worker& from, std::uint64_t tick) noexcept {
  idle_lock_.lock();
  bool new_thread = false;
  worker* successor = nullptr;
  if (!stopping_.load(std::memory_order_relaxed) && p.try_lock()) {
    if (p.owner() == &from && from.current != nullptr && p.tick.load(std::memory_order_relaxed) == tick)
      successor = take_sleeper(new_thread);
    if (successor == nullptr) p.unlock();
  }
  if (successor == nullptr) {
    idle_lock_.unlock();
    return false;
  }
  p.move_to(successor, "retaken");
  p.retaken.add();
  successor->held = &p;
  ++lost_;
  end_keeping(*successor);
  idle_lock_.unlock();
  return start_taken(*successor, p, new_thread);
}

// For a lost worker, inside a fiber or between two.
bool scheduler::take_idle_for(worker& w) noexcept {
  idle_lock_.lock();
  processor* p = nullptr;
  if (!idle_processors_.empty()) {
    p = idle_processors_.back();
    idle_processors_.pop_back();
    --lost_;
    hand_over(*p, w);
  }
  idle_lock_.unlock();
  if (p != nullptr && w.watched()) [[unlikely]]
    trace_regained(w);
  return p != nullptr;
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
  parked_outside_.fetch_add(1, std::memory_order_relaxed);
  switch_to(w, &f, nullptr);
}

void scheduler::end_without(fiber& f, worker& w) noexcept {
  // Seen under idle_lock_, once this worker is no longer lost. release: see snapshot().
  if (!f.carried_on) ended_outside_.fetch_add(1, std::memory_order_release);
  f.state.store(run_state::free, std::memory_order_relaxed);
  w.what_after = worker::after::retired;
  switch_to(w, &f, nullptr);
}

// On the native stack, the fiber gone. Returns with a processor (true), or when the runtime ends (false).
bool scheduler::sleep_as_spare(worker& w) noexcept {
  idle_lock_.lock();
  --lost_;
  sleepers_.push_back(&w);
  idle_lock_.unlock();
  return sleep_until_assigned(w);
}

bool scheduler::hand_off(worker& w) noexcept {
  processor* p = w.enter();
  if (p == nullptr) return false;
  const bool needed =
      p->next != nullptr || !p->ready.empty() || !p->fresh.empty() || p->timers.live() != 0 || !nothing_shared();
  w.leave();
  idle_lock_.lock();
  bool new_thread = false;
  worker* successor = needed ? take_sleeper(new_thread) : nullptr;
  const bool took_keeper = successor != nullptr && successor == keeper_;
  if (!p->leave_owner(w, successor)) {  // the monitor was faster
    if (successor != nullptr) {
      if (new_thread)
        successor->started = false;
      else
        sleepers_.push_back(successor);
    }
    idle_lock_.unlock();
    return true;
  }
  p->handed_off.add();
  ++lost_;
  if (successor != nullptr) {
    successor->held = p;
    end_keeping(*successor);
    idle_lock_.unlock();
    if (took_keeper) wake_monitor();
    start_taken(*successor, *p, new_thread);
    return true;
  }
  if (needed) share_all(*p);  // no memory for another worker
  idle_processors_.push_back(p);
  idle_.fetch_add(1, std::memory_order_seq_cst);
  publish_idle_deadline();
  // This worker does not go to sleep, so if nobody else sleeps until the next deadline somebody has to be woken for
  // that.
  const bool unkept = idle_deadline_.load(std::memory_order_relaxed) < keeper_deadline_;
  idle_lock_.unlock();
  heavy_fence();  // pairs with the light one after each push, as in sleep_until_assigned()
  if (unkept || work_visible()) wake_one();
  return true;
}

// Under idle_lock_, for a processor without an owner that is about to be idle: nobody looks into the rings of those.
void scheduler::share_all(processor& p) noexcept {
  for (backoff wait; !p.try_lock();) wait();
  if (runnable* r = std::exchange(p.next, nullptr)) injected_.push(r);
  p.has_next.store(false, std::memory_order_relaxed);
  while (runnable* r = p.ready.pop_front()) injected_.push(r);
  while (runnable* r = p.fresh.pop_front()) injected_.push(r);
  p.unlock();
}

[[gnu::noinline]] blocking_section::blocking_section() noexcept : handed_off_(false) {
  worker* w = current_worker();
  if (w != nullptr && w->current != nullptr) handed_off_ = w->home->hand_off(*w);
}

// The section may have moved the fiber, by blocking as fibers do.
[[gnu::noinline]] blocking_section::~blocking_section() {
  if (!handed_off_) return;
  worker& w = *current_worker();
  if (w.enter() != nullptr)
    w.leave();
  else
    w.home->rejoin(*w.current, w);
}

}  // namespace coir::detail
