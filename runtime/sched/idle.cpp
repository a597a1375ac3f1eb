#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include <pthread.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>

#include "base/clock.hpp"
#include "base/futex.hpp"
#include "base/sanitizer.hpp"
#include "sched/events.hpp"
#include "sched/overflow.hpp"
#include "sched/switch.hpp"

// The idle protocol: how workers search, steal (steal.cpp), sleep and are woken (wake.cpp). The states of processors
// and workers are in idle_set.hpp. A worker that searches is a running one that is counted as a searcher. A worker
// gives its processor up before it sleeps; a waker takes an idle processor and hands it to a sleeper.
//
// Invariant (no lost wake-up): work that is pushed is either seen by its own processor's worker, which is awake, or by
// a searcher, or the pusher sees idle != 0 and searching == 0 and wakes one:
//   pusher:   push;                       light fence;  load idle, searching
//   sleeper:  ++idle, --searching;        heavy fence;  look at all queues again (work_visible), only then sleep
// (The last to go idle needs a fence of its own alone: nobody holds a processor, so whoever pushes next behind a light
// fence has taken one since, under the idle set's lock, and knows of the idle ones; others push behind full fences.)
// A worker that finds more than it will run at once wakes the next searchers, up to two; one that finds work and was
// the last searcher wakes one if more is visible. So one wake per burst of pushes is enough.
//
// How eagerly. Waking a sleeper costs the waker some 14 us, and the woken one arrives some 50 us later: work that its
// own processor will have done by then is not worth it. Which it is, the last times tell:
//   - for what goes to `next`, those of the fiber that made it ready (waker_habit);
//   - for what goes to a queue, those of the processor: after a wake that found nothing to steal, or only timers to
//     fire, it wakes nobody for a while, each time for twice as long;
//   - a thief takes ready fibers only if the oldest has not moved for steal_ready_after, or since this worker was
//     woken: a queue that moves quickly is being served, and to spread fibers that talk to each other costs more than
//     it gains; so is one that grows while its worker fires timers;
//   - no more workers than CPUs are woken;
//   - the monitor (monitor.hpp) catches what these rules are wrong about, within half a millisecond or so, 3.6 after a
//     quiet time.
// A push that wakes a worker leaves it to that one to wake the monitor, should that sleep.
//
// Rejected: waking on every push (Go does; with a pair that talks, every message costs a futex call); spinning until
// work comes (burns a core); stealing at once (Boost.Fiber's work stealing is 5 to 20 times slower with two threads
// than with one, because every wake crosses cores); a list of sleepers without rechecking after the fence (loses
// wake-ups).

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::int64_t surplus_life = 5'000'000'000;  // ns that a thread is kept which no processor is likely to need

/// While one lives the calling thread is that worker's. Then, when it ends, as any other: destructors of thread_locals
/// may still use coir.
struct as_worker {
  explicit as_worker(worker& w) noexcept : thread_(&w.thread) { set_current_worker(&w); }
  ~as_worker() {
    set_current_worker(nullptr);
    tsan_acquire(thread_);
  }
  as_worker(const as_worker&) = delete;
  as_worker& operator=(const as_worker&) = delete;

 private:
  void* thread_;  // pairs with the release in switch_to()
};

}  // namespace

// ---- a worker's life -----------------------------------------------------------------------------------------------

void scheduler::work(worker& w) noexcept {
  tsan_acquire(
      &workers_);  // pairs with the section in worker_supply::take(): who made w need not be who started this thread
  const as_worker current(w);
  w.exceptions = thread_exception_state();
  w.tsan = tsan_current();
  tsan_release(&w);  // the thread-local storage of this thread, which fibers are going to use
#if defined(COIR_ASAN)
  pthread_attr_t attributes;
  void* bottom = nullptr;
  if (::pthread_getattr_np(::pthread_self(), &attributes) == 0) {
    ::pthread_attr_getstack(&attributes, &bottom, &w.asan.size);
    ::pthread_attr_destroy(&attributes);
  }
  w.asan.bottom = bottom;
#endif
  const signal_stack for_overflows;
  tracer::join(w);
  ::pthread_getcpuclockid(::pthread_self(), &w.cpu_clock);
  w.thread_id.store(static_cast<int>(::gettid()), std::memory_order_release);  // pairs with the monitor's load
  set_coarse_time(clock_.now());
  idle_.lock();
  const bool assigned = w.held != nullptr;  // by the wake that started this thread; else it is a sleeper
  idle_.unlock();
  if (!assigned && !sleep_until_assigned(w)) return;
  while (runnable* r = find_work(w)) {  // bracket open
    fiber* f = r->what == runnable::kind::suspended ? static_cast<fiber*>(r) : stack_for(w, *w.held, r);
    if (f != nullptr) switch_to_fiber(w, *f);
    while (start_record* fresh = std::exchange(w.unstarted, nullptr)) switch_to_fiber(w, new_stack_for(*fresh));
    w.leave();
    // Retaken while it ran a fiber: that has been left behind, wherever it belongs.
    if (w.held == nullptr && !sleep_as_spare(w)) return;
  }
}

// Returns with the bracket open; null when the runtime ends.
runnable* scheduler::find_work(worker& w) noexcept {
  for (;;) {
    if (w.held->asks_poller) ask_poller(w);
    const bool fired = run_due_timers(w);
    // Woken for timers alone: its waker would have fired them soon.
    if (fired && w.woken && !work_visible()) note_useless_wake(std::exchange(w.woken_by, nullptr));
    processor& p = w.enter_native();
    if (runnable* r = pick(w, p)) {
      // At most one wake for a batch: if more are needed, the woken one goes on (stop_searching()).
      const std::uint32_t more = std::min(std::exchange(w.brought, 0U), 2U);
      if (w.searching) stop_searching_found(w, more);
      return r;
    }
    p.timers.clean();
    w.leave();
    if (!sleeps_for_next_event(w) && ask_poller(w)) continue;
    w.brought = 0;
    if (runnable* r = search(w)) return r;
    if (!release_and_sleep(w)) return nullptr;
    w.enter_native().time_next_wake = true;
    w.leave();
  }
}

// ---- timers --------------------------------------------------------------------------------------------------------

namespace {

// What due timers wake is to run while it is in the cache; and to the monitor a queue that grows for long, with nobody
// served, looks as if it needed another worker. So a worker fires no more than these, runs some of what it has, and
// comes back for the others.
constexpr int fillings_at_a_time = 4;

/// Those that are due; of many, as long as `runs` has nothing to run, or some; all if it is null. lock() may fail.
/// Returns whether there were any.
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
  // If the lock fails: the next search comes by, or the monitor.
  return fire_due(
      p.timers, time, runs, [&] { return p.try_lock(); }, [&] { p.unlock(); });
}

}  // namespace

// Of a busy processor: what is left to it waits until its fiber lets go.
void scheduler::fire_all(processor& p, deadline time) noexcept { fire_due_of(p, time, nullptr); }

// Some of its own, and of those of idle processors. Returns whether there were any.
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

// ---- sleeping and waking -------------------------------------------------------------------------------------------

// The processor has nothing to do. Returns with one (true), or when the runtime ends (false).
bool scheduler::release_and_sleep(worker& w) noexcept {
  // Read before others may hand this worker a processor.
  const bool was_searching = std::exchange(w.searching, false);
  const bool was_woken = std::exchange(w.woken, false);
  processor* woken_by = std::exchange(w.woken_by, nullptr);
  processor* p = w.held;
  p->give_to(nullptr);
  idle_.lock();
  w.held = nullptr;
  idle_.put(*p);
  idle_.add_sleeper(w);
  const bool last = idle_.all_idle();
  idle_.unlock();
  if (was_searching) idle_.remove_searcher();
  if (was_woken) note_useless_wake(woken_by);
  return sleep_until_assigned(w, last);
}

// Of virtual time, when the worker has found nothing to run: makes something runnable, if all fibers are blocked and
// nothing but time can wake one. Then a processor is to be taken, whose timers are due.
bool scheduler::advance_time(worker& w) noexcept {
  {
    const std::lock_guard locked(idle_);
    if (!idle_.all_idle() || idle_.lost() != 0 || !queues_.empty() || io_waits() != 0) return false;
  }
  set_current_worker(nullptr);  // which has no processor
  const bool any = settling_.wake_all();
  set_current_worker(&w);
  if (any) return true;
  const deadline next = deadline_for_sleepers();
  if (next == no_deadline) return false;
  clock_.set_virtual(std::max(next, clock_.now()));
  return true;
}

// For a sleeper; `last`: all processors were idle when it became one. Returns with a processor (true), or when the
// runtime ends (false).
bool scheduler::sleep_until_assigned(worker& w, bool last) noexcept {
  if (last) {
    std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with the one in inject()
  } else {
    costs_.membarriers.add();
    heavy_fence();  // pairs with the light one after each push
  }
  const bool assigned = sleep(w);
  w.placement.restore();
  return assigned;
}

bool scheduler::sleep(worker& w) noexcept {
  for (;;) {
    if (stopping_.load(std::memory_order_acquire)) return false;
    if (idle_.may_wake(idle_.count()) && work_visible() && take_idle_processor(w)) return true;
    if (clock_.is_virtual() && advance_time(w) && take_idle_processor(w)) return true;

    deadline until = no_deadline;
    idle_.lock();
    if (w.held != nullptr) {
      idle_.unlock();
      return true;
    }
    // A waker may have set it after this worker had seen its processor without being woken.
    if (!stopping_.load(std::memory_order_relaxed)) w.awake.store(0, std::memory_order_relaxed);
    const bool all_idle = idle_.all_idle();
    const bool surplus = idle_.sleepers() > processors_.size();
    if (idle_.has_processor() && !clock_.is_virtual())
      if (const deadline next = deadline_for_sleepers(); idle_.keep(w, next)) until = next;
    const bool polls = poller_.active() && !stopping_.load(std::memory_order_relaxed) && idle_.begin_polling(w);
    idle_.unlock();
    if (all_idle)
      note_quiescent();
    else
      wake_monitor();  // what waits behind a busy fiber was pushed, perhaps, when no processor was idle

    if (polls) {
      if (sleep_in_poller(w, until)) return !stopping_.load(std::memory_order_acquire);
      continue;
    }
    costs_.futex_calls.add();
    if (surplus && until == no_deadline) {
      futex_wait(w.awake, 0, clock_.now() + surplus_life);
      set_coarse_time(clock_.now());
      if (end_surplus(w)) return false;
      continue;
    }
    futex_wait(w.awake, 0, until);
    const std::int64_t woken_at = clock_.now();
    set_coarse_time(woken_at);

    idle_.lock();
    idle_.end_keeping(w);
    const bool assigned = w.held != nullptr;
    // Or is not any more: others have fired what this one was to wake for.
    const bool due = until != no_deadline && deadline_for_sleepers() <= woken_at;
    idle_.unlock();
    if (assigned) return !stopping_.load(std::memory_order_acquire);
    if (due && take_idle_processor(w)) return true;
  }
}

// For the sleeper that is entered as the one in epoll. True if it has a processor now.
bool scheduler::sleep_in_poller(worker& w, deadline until) noexcept {
  poller::batch events;
  poller_.collect(events, until);
  poller_.answer(events);
  w.woken_by_one_event = events.size == 1;
  const std::int64_t woken_at = clock_.now();
  set_coarse_time(woken_at);

  idle_.lock();
  idle_.end_keeping(w);
  idle_.end_polling(w);
  const bool assigned = w.held != nullptr;
  const bool due = until != no_deadline && deadline_for_sleepers() <= woken_at;
  idle_.unlock();
  const bool has_processor =
      assigned || ((due || events.size != 0) && !stopping_.load(std::memory_order_relaxed) && take_idle_processor(w));
  deliver(w, events);
  // If this worker computes, only the monitor asks for the next events.
  if (has_processor) wake_monitor();
  return has_processor;
}

// ---- descriptors ---------------------------------------------------------------------------------------------------

// On the native stack, with a processor or without. Returns whether there were any events.
bool scheduler::deliver(worker& w, const poller::batch& events) noexcept {
  if (events.size == 0) return false;
  if (w.held == nullptr) {  // all are busy
    set_current_worker(nullptr);
    deliver_from_outside(events);
    set_current_worker(&w);
    return true;
  }
  if (!w.searching) {  // so that the first does not wake somebody: this one runs it itself
    idle_.add_searcher();
    w.searching = true;
  }
  w.held->firing.store(true, std::memory_order_relaxed);
  poller::deliver(events);
  w.held->firing.store(false, std::memory_order_relaxed);
  w.brought += static_cast<std::uint32_t>(events.size - 1);
  w.held->more_events = events.more;
  return true;
}

void scheduler::deliver_from_outside(const poller::batch& events) noexcept {
  if (events.size == 0) return;
  poller::deliver(events);
  for (const auto& p : processors_) p->attention.fetch_or(attention::shared, std::memory_order_relaxed);
}

void scheduler::ask_poller_from_outside() noexcept {
  poller::batch events;
  poller_.collect(events, 0);
  deliver_from_outside(events);
}

// How many events are taken at a time: those that do not fit the ready ring stay in the kernel, which keeps them in the
// order of their arrival. What spills over from the ring runs after what comes later. Some are taken all the same:
// fibers that wake each other may keep the ring full for ever.
int scheduler::room_for_events(const processor& p) noexcept {
  constexpr int fewest = 16;
  const std::uint32_t taken = queues_.spilled_ready().size() == 0 ? p.ready.size() : processor::ring::capacity;
  return std::clamp(static_cast<int>(processor::ring::capacity - taken), fewest, poller::batch::capacity);
}

// Asks without waiting, unless a worker sleeps in epoll. Returns whether there were any events.
bool scheduler::ask_poller(worker& w) noexcept {
  w.held->asks_poller = false;
  w.held->more_events = false;  // deliver() sets it again
  if (!poller_.active() || idle_.anybody_polls()) return false;
  poller::batch events;
  poller_.collect(events, 0, room_for_events(*w.held));
  return deliver(w, events);
}

// Whether a worker that has run dry goes to sleep in the poller without asking it first. Its last sleep there ended
// with a single event. That is so time and again where one connection is served at a time, and then asking first would
// be a system call for nothing. Nothing is lost if this is wrong: who sleeps there is told of what is ready at once. If
// others are busy the worker searches before it sleeps, so it asks first.
bool scheduler::sleeps_for_next_event(const worker& w) const noexcept {
  return w.woken_by_one_event && idle_.count() + 1 == processors_.size();
}

void scheduler::begin_io_wait() noexcept {
  worker& w = *current_worker();
  if (processor* p = w.enter()) {
    p->io_begun.add();
    w.leave();
  } else {
    io_begun_outside_.fetch_add(1, std::memory_order_relaxed);
  }
}

void scheduler::end_io_wait() noexcept {
  worker& w = *current_worker();
  if (processor* p = w.enter()) {
    p->io_ended.add();
    w.leave();
  } else {
    io_ended_outside_.fetch_add(1, std::memory_order_relaxed);
  }
}

std::uint64_t scheduler::io_waits() const noexcept {
  std::uint64_t waits =
      io_begun_outside_.load(std::memory_order_relaxed) - io_ended_outside_.load(std::memory_order_relaxed);
  for (const auto& p : processors_) waits += p->io_begun.value() - p->io_ended.value();
  return waits;
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

// For a sleeper that has seen work, or a deadline, itself: takes an idle processor and leaves the sleepers. It is a
// searcher from then on, as if it had been woken, so that it wakes the next if there is more: who pushed that may have
// been turned away while this worker was searching. True if it has a processor now.
bool scheduler::take_idle_processor(worker& w) noexcept {
  const std::lock_guard locked(idle_);
  if (w.held == nullptr && idle_.has_processor()) {
    idle_.remove_sleeper(w);
    idle_.add_searcher();
    w.searching = true;
    idle_.hand_over(w);
  }
  return w.held != nullptr;
}

// A sleeper that has not been needed for long, and of which there are more than processors, ends its thread.
bool scheduler::end_surplus(worker& w) noexcept {
  const std::lock_guard locked(idle_);
  const bool ends = w.held == nullptr && !stopping_.load(std::memory_order_relaxed) &&
                    w.awake.load(std::memory_order_relaxed) == 0 && idle_.sleepers() > processors_.size();
  if (ends) {
    idle_.remove_sleeper(w);
    worker_supply::retire(w);
  }
  return ends;
}

internal_vector<worker*> scheduler::started_workers() {
  const std::lock_guard locked(idle_);
  return workers_.started();
}

unsigned scheduler::index_of(const worker& w) noexcept {
  const std::lock_guard locked(idle_);
  return workers_.index_of(w);
}

}  // namespace coir::detail
