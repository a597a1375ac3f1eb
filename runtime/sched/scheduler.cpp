#include "sched/switch.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include <coir/detail/abi.hpp>

#include "base/report.hpp"
#include "sched/stack_bottom.hpp"
#include "stack/stack_measure.hpp"

// Switching. switch_to() leaves work for the other side of the switch (worker::what_after) since a context can only be
// published once it has been left. The bracket (worker.hpp) is open all the while.

namespace coir::inline COIR_ABI::detail {

namespace {

/// The depth in the tree of spawns of a fiber that is spawned on this worker. Null: by a foreign thread.
[[gnu::always_inline]] inline std::uint8_t depth_below(const worker* w) noexcept {
  if (w == nullptr || w->current == nullptr) return 0;
  const unsigned above = w->current->depth;
  return static_cast<std::uint8_t>(above + (above != runnable::deepest ? 1U : 0U));
}

// Wake-up latency (wake_latency.hpp). Called by the waker, before the fiber becomes runnable...
[[gnu::noinline, gnu::cold]] void note_runnable(const runtime_clock& clock, fiber& f) noexcept {
  f.what = runnable::kind::timed;
  f.runnable_since = clock.now();
}

// ...and by the holder of the processor that is about to run it.
[[gnu::noinline, gnu::cold]] fiber* note_running(const runtime_clock& clock, processor& p, runnable* r) noexcept {
  auto& f = *static_cast<fiber*>(r);
  f.what = runnable::kind::suspended;
  p.latency.record(clock.now() - f.runnable_since);
  return &f;
}

// By the waker, before r can run. `held`: the waker's processor.
[[gnu::noinline, gnu::cold]] void observe_wake(worker& w, processor* held, runnable& r) noexcept {
  if (r.what != runnable::kind::suspended) return;
  auto& f = static_cast<fiber&>(r);
  if (w.watched()) trace_wake(w, f);
  if (held == nullptr || !held->time_next_wake) return;
  held->time_next_wake = false;
  note_runnable(w.home->clock(), f);
}

}  // namespace

// ---- making runnable -----------------------------------------------------------------------------------------------

// Called by a foreign thread, which is counted in visitors_. Once the fiber is pushed it may run, and its end may be
// the last that the runtime waits for before it is destroyed. ~scheduler() waits for the threads that are still in
// here.
void scheduler::inject(runnable* r) noexcept {
  come_in();
  if (outside_.injected.fetch_add(1, std::memory_order_relaxed) % wake_latency::injections_between == 0 &&
      r->what == runnable::kind::suspended)
    note_runnable(clock_, *static_cast<fiber*>(r));
  queues_.inject(r);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with sleep_until_assigned(): the push, then idle_
  const std::uint32_t idle = idle_.word();
  if (!idle_.may_wake(idle & idle_set::count_mask) || !wake_one(nullptr)) {
    if ((idle & idle_set::monitor_sleeps) != 0) wake_monitor();
  }
  go_out();
}

// Never waits for a processor, even if the worker has lost its own, and never moves the calling fiber to another
// thread: the caller of a function that does not block may hold a lock of the operating system.
[[gnu::noinline]] void scheduler::start(start_record* r, std::uint8_t least_depth) noexcept {
  tsan_release(r);
  worker* w = current_worker_at_entry();
  r->depth = std::max(least_depth, depth_below(w));
  processor* held = w != nullptr && w->home == this ? enter_or_take(*w) : nullptr;
  if (held == nullptr) [[unlikely]] {
    outside_.started.fetch_add(1, std::memory_order_relaxed);
    inject(r);
    return;
  }
  processor& p = *held;
  p.started.add();
  if (explorer* const e = explored_by()) {
    e->can_run(*r);
    w->leave();
    return;
  }
  queues_.push_fresh(p, r);
  w->leave();
  light_fence();  // pairs with the heavy one in sleep_until_assigned(): the push, then idle_
  if (idle_.word() != 0) [[unlikely]]
    offer(p);
}

void scheduler::count_started(runnable& r) noexcept {
  worker* w = current_worker();
  r.depth = depth_below(w);
  processor* held = w != nullptr && w->home == this ? w->enter() : nullptr;
  if (held == nullptr) [[unlikely]] {
    outside_.started.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  held->started.add();
  w->leave();
}

void scheduler::make_ready(fiber& f) noexcept {
  f.state.store(run_state::queued, std::memory_order_relaxed);
  make_ready(static_cast<runnable&>(f));
}

// The usual case: a fiber wakes another one, which shall run next. The rest is another function, so that this one needs
// no stack frame.
[[gnu::noinline]] void scheduler::make_ready(runnable& r) noexcept {
  worker* w = current_worker_at_entry();
  if (w == nullptr || w->home != this || w->current == nullptr || explored_by() != nullptr) [[unlikely]]
    return make_ready_slowly(r);
  processor* p = w->enter_undisturbed();
  if (p == nullptr || p->next != nullptr || (p->time_next_wake | w->watched())) return make_ready_slowly(r);
  p->next = &r;
  p->next_is.store(next_state::waits, std::memory_order_relaxed);
  w->leave();
  light_fence();  // pairs with the heavy one in monitor::run(): `next`, then idle_
  if (idle_.word() != 0) [[unlikely]]
    offer_next(*w, *p);
}

[[gnu::noinline]] void scheduler::make_ready_slowly(runnable& r) noexcept {
  worker* w = current_worker_at_entry();
  processor* held = w != nullptr && w->home == this ? enter_or_take(*w) : nullptr;
  if (held == nullptr) [[unlikely]] {
    if (w != nullptr) observe_wake(*w, nullptr, r);
    inject(&r);
    return;
  }
  processor& p = *held;
  if (explorer* const e = explored_by()) {
    e->can_run(r);
    w->leave();
    return;
  }
  if (p.time_next_wake | w->watched()) [[unlikely]]
    observe_wake(*w, held, r);
  runnable* queued = &r;
  // Not on the native stack: timers fire there, and wake fibers in the order of their deadlines.
  if (w->current != nullptr) {
    queued = std::exchange(p.next, queued);
    if (queued == nullptr) p.next_is.store(next_state::waits, std::memory_order_relaxed);
  }
  if (queued == nullptr) {
    w->leave();
    light_fence();  // pairs with the heavy one in monitor::run(): `next`, then idle_
    if (idle_.word() != 0) [[unlikely]]
      offer_next(*w, p);
    return;
  }
  queues_.push_ready(p, queued);
  w->leave();
  light_fence();  // pairs with the heavy one in sleep_until_assigned(): the push, then idle_
  if (idle_.word() != 0) [[unlikely]]
    offer(p);
}

// ---- switching -----------------------------------------------------------------------------------------------------

void scheduler::switch_to_fiber(worker& w, fiber& to) noexcept { switch_to(w, nullptr, &to); }

// ---- identities ----------------------------------------------------------------------------------------------------

namespace {

constexpr std::uint64_t id_block = 1024;

std::uint64_t take_ids(std::uint64_t count) noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(count, std::memory_order_relaxed);
}

// Each worker takes ids in blocks.
inline std::uint64_t new_id(worker& w) noexcept {
  if (w.next_id == w.last_id) [[unlikely]] {
    w.next_id = take_ids(id_block);
    w.last_id = w.next_id + id_block;
  }
  return ++w.next_id;
}

}  // namespace

fiber_id new_fiber_id() noexcept {
  worker* w = current_worker();
  return fiber_id{w != nullptr ? new_id(*w) : take_ids(1) + 1};
}

// ---- starting and ending -------------------------------------------------------------------------------------------

namespace {

// For the monitor. It does not count a coroutine's turn.
inline void note_begun(processor& p, const runnable& r) noexcept {
  if (r.has_not_started()) p.begun.add();
}

}  // namespace

// The fiber for a runnable that is not merely suspended. If its wake-up latency is measured, the latency is noted. A
// fresh one gets a free stack. If there is none, it goes to w.unstarted, and null is returned.
fiber* scheduler::stack_for(worker& w, processor& p, runnable* fresh) noexcept {
  if (fresh->what == runnable::kind::timed) [[unlikely]]
    return note_running(clock_, p, fresh);
  note_begun(p, *fresh);
  auto* record = static_cast<start_record*>(fresh);
  fiber* f = stacks_.take(p, record->stack_class);
  if (f == nullptr) [[unlikely]]
    w.unstarted = record;
  else
    f->record = record;
  return f;
}

// Called on the native stack. To ask the system for memory takes time, and a fiber that parks would hold the lock of
// its primitive meanwhile.
fiber& scheduler::new_stack_for(start_record& fresh) noexcept try {
#if defined(COIR_REPORTS_BEFORE_UNWINDING)
  fiber& f = stacks_.make(*this, fresh.stack_class, &coir_stack_bottom);
#else
  fiber& f = stacks_.make(*this, fresh.stack_class, &first_entry);
#endif
  f.record = &fresh;
  return f;
} catch (const std::exception& e) {
  fatal("no stack for a fiber spawned at ", fresh.file, ':', fresh.line, ": ", e.what());
}

namespace {

// An exception that leaves the fiber's function is a failure of the schedule. It does not end the process.
[[gnu::noinline]] void run_explored(explorer& e, start_record* record) noexcept {
  try {
    record->run(record);
  } catch (const cancelled&) {
  } catch (...) {
    e.failed(std::current_exception());
  }
}

}  // namespace

// Runs the record's closure as a fiber on this stack. Bracket open at entry, closed on return.
void scheduler::run_fiber(fiber& self) {
  worker& w = *self.on;
  start_record* record = self.record;
  std::atomic_thread_fence(std::memory_order_release);  // free, then what follows: pairs with take_snapshot()
  self.id = new_id(w);
  self.spawn_file = record->file;
#if defined(COIR_EXPLORE)
  self.turn_number = record->turn_number;
#endif
  self.line = record->line;
  self.depth = record->depth;
  waiter_access::clear_reasons(self.wait);
  self.in_deadlock = false;
  self.carried_on = false;
  self.state.store(run_state::running, std::memory_order_release);  // pairs with take_snapshot()
  light_fence();  // pairs with cancel_all()'s: the state, then the flag
  if (cancel_all_.load(std::memory_order_relaxed)) [[unlikely]]
    waiter_access::set_for_good(self.wait);
  tsan_acquire(record);
  if (w.watched()) [[unlikely]]
    trace_begin(w, self);
  w.leave();

  if (explorer* const e = explored_by()) {
    if (e->ending()) self.in_deadlock = true;
    run_explored(*e, record);
  } else
    try {
      record->run(record);
    } catch (const cancelled&) {
      // the normal end of a cancelled fiber
    }
#if !defined(COIR_REPORTS_BEFORE_UNWINDING)
    catch (...) {
      die_of_exception(self);
    }
#endif
  if (debug_.stackuse != 0) [[unlikely]]
    note_stack_use(self);
  end_fiber(self);
  tsan_release(this);  // for the threads that wait until the runtime is drained
}

// The life of a stack: it runs fibers, and sleeps on a free list between them.
[[gnu::always_inline]] inline void scheduler::stack_main(fiber& self) {
  for (;;) {
    run_fiber(self);
    worker& w = *self.on;
    processor* held = w.enter();
    if (held == nullptr) [[unlikely]] {
      end_without(self, w);
      continue;
    }
    processor& p = *held;
    if (!self.carried_on) p.ended.add_release();  // see snapshot()
    self.state.store(run_state::free, std::memory_order_relaxed);
    runnable* r = pick(w, p);
    if (r != nullptr && r->what != runnable::kind::suspended) {
      if (self.stack_class == 0 && r->what < runnable::kind::timed && !watches_ended_stacks && explored_by() == nullptr)
          [[likely]] {
        self.record = static_cast<start_record*>(r);  // the warm stack of one that has just ended: no switch at all
        note_begun(p, *r);
        continue;
      }
      r = stack_for(w, p, r);
    }
    w.what_after = worker::after::retired;
    switch_to(w, &self, static_cast<fiber*>(r));
  }
}

// The first function on a new stack. The code that switched here has made its fiber the current one.
// Neither this nor the functions below are noexcept: noexcept would be a handler. See stack_bottom.hpp.
void scheduler::first_entry(arrival from) {
  worker& w = *current_worker();
  fiber& self = *w.current;
  asan_finish_switch(self.asan, nullptr);
  self.home->after_switch(w, from.fctx);
  self.home->stack_main(self);
}

}  // namespace coir::detail
