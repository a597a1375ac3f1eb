#include <algorithm>
#include <utility>

#include <pthread.h>
#include <unistd.h>

#include "clock.hpp"
#include "futex.hpp"
#include "overflow.hpp"
#include "sanitizer.hpp"
#include "switch.hpp"
#include "trace.hpp"

// The idle protocol: how workers search, steal, sleep and are woken.
//
// A processor is busy (a worker owns it) or idle (in idle_processors_); a worker is busy, searching (busy and counted
// in searching_) or asleep (in sleepers_). A worker gives its processor up before it sleeps; a waker takes an idle
// processor and hands it to a sleeper.
//
// Invariant (no lost wake-up): work that is pushed is either seen by its own processor's worker, which is awake, or by
// a searcher, or the pusher sees idle_ != 0 and searching_ == 0 and wakes one:
//   pusher:   push;                       light fence;  load idle_, searching_
//   sleeper:  ++idle_, --searching_;      heavy fence;  look at all queues again (work_visible), only then sleep
// A worker that finds work while searching wakes the next searcher if more is visible, so that one wake per push is
// enough.
//
// How eagerly. Waking a sleeper costs the waker some 14 us, and the woken one arrives some 50 us later: work that its
// own processor will have done by then is not worth it. So
//   - what goes to `next` wakes nobody;
//   - a wake that found nothing to steal, or only timers to fire, doubles the number of picks that must pass on each
//     busy processor before that may wake again (wake_gap); a steal sets its victim's to zero;
//   - a thief takes ready fibers only if the oldest has not moved for steal_ready_after: a queue that moves quickly is
//     being served, and to spread fibers that talk to each other costs more than it gains; so is one that grows
//     while its worker fires timers;
//   - the monitor (monitor.cpp) catches what these rules are wrong about, within two milliseconds or so.
//
// Rejected: waking on every push (Go does; with a pair that talks, every message costs a futex call); spinning until
// work comes (burns a core); stealing at once (Boost.Fiber's work stealing is 5 to 20 times slower with two threads
// than with one, because every wake crosses cores); a list of sleepers without rechecking after the fence (loses
// wake-ups).

namespace coir::detail {

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
  tsan_acquire(&workers_);  // who made w need not be who started this thread
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
  idle_lock_.lock();
  const bool assigned = w.held != nullptr;  // by the wake that started this thread; else it is in sleepers_
  idle_lock_.unlock();
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
    const bool fired = run_due_timers(w);
    // Woken for timers alone: its waker would have fired them soon.
    if (fired && w.woken && !work_visible()) widen_wake_gaps(w.held);
    processor& p = w.enter_native();
    if (runnable* r = pick(w, p)) {
      if (w.searching) stop_searching_found(w);
      return r;
    }
    p.timers.clean();
    w.leave();
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
  const auto wants_more = [&] { return runs == nullptr || (runs->ready.empty() && runs->fresh.empty()); };
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
  const deadline of_idle = idle_deadline_.load(std::memory_order_relaxed);
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
    idle_lock_.lock();
    publish_idle_deadline();
    idle_lock_.unlock();
  }
  mine.firing.store(false, std::memory_order_relaxed);
  return fired;
}

// Under idle_lock_.
void scheduler::publish_idle_deadline() noexcept {
  deadline earliest = no_deadline;
  for (const processor* p : idle_processors_) earliest = std::min(earliest, p->timers.earliest());
  idle_deadline_.store(earliest, std::memory_order_relaxed);
}

// ---- sleeping and waking -------------------------------------------------------------------------------------------

// The processor has nothing to do. Returns with one (true), or when the runtime ends (false).
bool scheduler::release_and_sleep(worker& w) noexcept {
  // Read before others may hand this worker a processor.
  const bool was_searching = std::exchange(w.searching, false);
  const bool was_woken = std::exchange(w.woken, false);
  processor* p = w.held;
  p->give_to(nullptr);
  idle_lock_.lock();
  w.held = nullptr;
  idle_processors_.push_back(p);
  sleepers_.push_back(&w);
  idle_.fetch_add(1, std::memory_order_seq_cst);
  publish_idle_deadline();
  idle_lock_.unlock();
  if (was_searching) stop_searching(false, was_woken);
  return sleep_until_assigned(w);
}

// For a worker in sleepers_. Returns with a processor (true), or when the runtime ends (false).
bool scheduler::sleep_until_assigned(worker& w) noexcept {
  const auto count = static_cast<std::uint32_t>(processors_.size());
  heavy_fence();  // pairs with the light one after each push
  for (;;) {
    if (stopping_.load(std::memory_order_acquire)) return false;
    if (work_visible() && take_idle_processor(w)) return true;

    deadline until = no_deadline;
    idle_lock_.lock();
    if (w.held != nullptr) {
      idle_lock_.unlock();
      return true;
    }
    // A waker may have set it after this worker had seen its processor without being woken.
    if (!stopping_.load(std::memory_order_relaxed)) w.awake.store(0, std::memory_order_relaxed);
    const bool all_idle = idle_count() == count;
    const bool surplus = sleepers_.size() > count;
    if (!idle_processors_.empty()) {
      const deadline next = deadline_for_sleepers();
      if (next < keeper_deadline_) {
        keeper_ = &w;
        keeper_deadline_ = next;
        until = next;
      }
    }
    idle_lock_.unlock();
    if (all_idle)
      note_quiescent();
    else
      wake_monitor();  // what waits behind a busy fiber was pushed, perhaps, when no processor was idle

    if (surplus && until == no_deadline) {
      futex_wait(w.awake, 0, clock_.now() + surplus_life);
      set_coarse_time(clock_.now());
      if (end_surplus(w)) return false;
      continue;
    }
    futex_wait(w.awake, 0, until);
    const std::int64_t woken_at = clock_.now();
    set_coarse_time(woken_at);

    idle_lock_.lock();
    end_keeping(w);
    const bool assigned = w.held != nullptr;
    // Or is not any more: others have fired what this one was to wake for.
    const bool due = until != no_deadline && deadline_for_sleepers() <= woken_at;
    idle_lock_.unlock();
    if (assigned) return !stopping_.load(std::memory_order_acquire);
    if (due && take_idle_processor(w)) return true;
  }
}

// Under idle_lock_. When a sleeper has to fire timers: those of an idle processor when they are due, those of a busy
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
  idle_lock_.lock();
  if (w.held == nullptr && !idle_processors_.empty()) {
    processor* p = idle_processors_.back();
    idle_processors_.pop_back();
    std::erase(sleepers_, &w);
    searching_.fetch_add(1, std::memory_order_seq_cst);
    w.searching = true;
    hand_over(*p, w);
  }
  const bool has = w.held != nullptr;
  idle_lock_.unlock();
  return has;
}

// Under idle_lock_.
void scheduler::hand_over(processor& p, worker& w) noexcept {
  p.give_to(&w);
  w.held = &p;
  end_keeping(w);
  busy_epoch_.add();
  idle_.fetch_sub(1, std::memory_order_seq_cst);
  publish_idle_deadline();
}

// Under idle_lock_: if w is the keeper, nobody is any more.
void scheduler::end_keeping(const worker& w) noexcept {
  if (keeper_ != &w) return;
  keeper_ = nullptr;
  keeper_deadline_ = no_deadline;
}

// After a push on processor p, with idle_ != 0.
void scheduler::offer(processor& p) noexcept {
  if ((idle_.load(std::memory_order_relaxed) & monitor_sleeps) != 0) wake_monitor();
  if (idle_count() == 0) return;
  if (searching_.load(std::memory_order_relaxed) != 0) {
    wake_monitor();  // the searcher may have looked here already
    return;
  }
  const auto tick = static_cast<std::uint32_t>(p.tick.load(std::memory_order_relaxed));
  if (tick - p.last_wake.load(std::memory_order_relaxed) < p.wake_gap.load(std::memory_order_relaxed)) {
    wake_monitor();
    return;
  }
  p.last_wake.store(tick, std::memory_order_relaxed);
  wake_one();
}

void scheduler::wake_one() noexcept {
  std::uint32_t nobody = 0;
  if (searching_.compare_exchange_strong(nobody, 1, std::memory_order_seq_cst)) wake_searcher();
}

// Whoever is woken has been counted in searching_.
void scheduler::wake_searcher() noexcept {
  worker* w = nullptr;
  bool new_thread = false;
  idle_lock_.lock();
  if (!idle_processors_.empty() && !stopping_.load(std::memory_order_relaxed)) w = take_sleeper(new_thread);
  if (w == nullptr) {
    // Before the lock is released: who goes idle after this must not have its pushers turned away by this count.
    searching_.fetch_sub(1, std::memory_order_seq_cst);
    idle_lock_.unlock();
    return;
  }
  processor* p = idle_processors_.back();
  idle_processors_.pop_back();
  w->searching = true;
  w->woken = true;
  const bool took_keeper = w == keeper_;
  hand_over(*p, *w);
  idle_lock_.unlock();
  if (took_keeper) wake_monitor();  // nobody sleeps until the next deadline any more
  start_taken(*w, *p, new_thread);
}

}  // namespace coir::detail
