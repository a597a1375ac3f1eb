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
// (The last worker to go idle needs only a fence of its own. No worker holds a processor then. A thread that pushes
// behind a light fence has taken a processor since, under the idle set's lock, and so knows of the idle ones. All other
// threads push behind full fences.)
// A worker that finds more than it will run at once wakes the next searchers, up to two. The last searcher that finds
// work wakes one if more is visible. So one wake-up per burst of pushes is enough.
//
// How eagerly a push wakes. A wake-up costs the waker some 14 us, and the woken worker arrives some 50 us later. It is
// not worth it for work that its own processor will have done by then. Earlier wake-ups predict that:
//   - For work in `next`: those by the fiber that made it ready (waker_habit).
//   - For work in a queue: those by the processor. After a wake-up that found nothing to steal, or only timers to
//     fire, pushes there wake nobody for a while. That time doubles with each such wake-up.
// Further rules:
//   - A thief takes ready fibers only if the oldest has not moved for steal_ready_after, or since this worker was
//     woken. A queue that moves quickly is being served, and spreading fibers that talk to each other costs more than
//     it gains. A queue that grows while its worker fires timers is being served, too.
//   - No more workers than CPUs are woken.
//   - The monitor (monitor.hpp) finds the work for which these rules are wrong, within half a millisecond or so, or
//     12 ms after a quiet time.
// A push that wakes a worker does not wake the monitor. The woken worker does, if the monitor sleeps.
//
// Rejected: waking a worker on every push, as Go does. With a pair that talks, every message costs a futex call.
// Rejected: spinning until work comes, which burns a core.
// Rejected: stealing at once. Boost.Fiber's work stealing is 5 to 20 times slower with two threads than with one,
// because every wake-up crosses cores.
// Rejected: a list of sleepers without a second look after the fence, which loses wake-ups.

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::int64_t surplus_life = 5'000'000'000;  // ns that a thread is kept that no processor is likely to need

/// While an object lives, the calling thread is that worker's. After that it is like any other thread, because
/// destructors of thread_locals may still use coir.
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
    // The processor was retaken while it ran a fiber. The fiber has been left where it belongs.
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
      // A batch of events wakes at most one worker. If more are needed, that worker wakes them (stop_searching()).
      const std::uint32_t more = std::min(std::exchange(w.brought, 0U), 2U);
      if (w.searching) stop_searching(w, more);
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

// ---- sleeping and waking -------------------------------------------------------------------------------------------

// Gives up the processor, which has nothing to do, and sleeps. Returns with a processor (true), or when the runtime
// ends (false).
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

// For virtual time, when the worker has found nothing to run. If all fibers are blocked and nothing but time can wake
// one, it wakes the settlers, or else moves the clock to the next deadline. True if it did: the caller then takes a
// processor, and fires what is due.
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
      wake_monitor();  // work behind a busy fiber may have been pushed when no processor was idle

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
    // False if others have fired the timers that this worker was to wake for.
    const bool due = until != no_deadline && deadline_for_sleepers() <= woken_at;
    idle_.unlock();
    if (assigned) return !stopping_.load(std::memory_order_acquire);
    if (due && take_idle_processor(w)) return true;
  }
}

// For a sleeper that has itself seen work or a deadline: takes an idle processor and leaves the sleepers. From then on
// it is a searcher, as if it had been woken, so that it wakes the next worker if there is more work. The thread that
// pushed that work may have woken nobody because this worker was searching. True if it has a processor now.
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

// Ends the thread of a sleeper that has not been needed for long, if there are more sleepers than processors.
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
