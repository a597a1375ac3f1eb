#include "switch.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <utility>

#include "report.hpp"
#include "stack_use.hpp"

// Picking. A processor looks, in this order, at
//   next    the fiber that the running one has just made ready: it finds its data warm, and a pair that talks stays on
//   one
//           processor. It inherits the time slice: after next_budget picks in a row a ready fiber goes to the queue.
//   ready   oldest first
//   fresh   newest first: depth first, so that a tree of fibers needs stacks for a path and not for a level
//   the injection queue (from foreign threads), then what has spilled over from full rings, ready before fresh.
// A fiber that yields lets the fresh ones go before the ready queue, that it has just joined itself.
// So that nothing starves, every 64th pick takes an injected one first, every 64th the oldest ready one (a fiber that
// yields would let new ones go first for ever) and every 64th the newest fresh one, every 128th
// exchanges a batch of spilled ready ones, and every millisecond the oldest fresh one of all has its turn. Fresh ones
// that are held up nevertheless get turns of their own: watch_fresh(). Timers are looked at every 16th pick if there
// are any, and whenever the queues run dry.
//
// Switching. switch_to() leaves work for the other side of the switch (worker::what_after) since a context can only be
// published once it has been left. The bracket (worker.hpp) is open all the while.

namespace coir::detail {

namespace {

constexpr std::size_t injected_batch = 64;

/// A core looks up several pages at a time only if the prefetches follow upon one another: so control blocks, eight at
/// once, and then the context of the one that is next.
[[gnu::always_inline]] inline void prefetch_stacks(fiber* const* stacks, std::size_t count) noexcept {
  constexpr std::size_t at_once = 8;
  if (count % at_once == 0)
    for (std::size_t i = count - std::min(count, at_once); i < count; ++i) prefetch_lines<2>(stacks[i]);
  if (count != 0) prefetch_lines<2>(stacks[count - 1]->suspended);
}

}  // namespace

// ---- queues --------------------------------------------------------------------------------------------------------

namespace {

static_assert(spill_queue::batch_size == processor::ring::capacity / 2);

// Without memory for a batch: the injection queue needs none.
void inject_all(injection_queue& q, runnable** items, std::uint32_t n) noexcept {
  for (std::uint32_t i = 0; i < n; ++i) items[i]->next = i + 1 < n ? items[i + 1] : nullptr;
  q.push_chain(items[0], items[n - 1], n);
}

}  // namespace

// The newest: those at the front have waited longest, and are to run next.
void scheduler::spill_ready(processor& p) noexcept {
  spill_queue::batch* b = spilled_ready_.make();
  if (b == nullptr) {
    runnable* items[spill_queue::batch_size];
    inject_all(injected_, items, p.ready.take_newest_half(items));
    return;
  }
  b->first = 0;
  b->end = p.ready.take_newest_half(b->items);
  spilled_ready_.push(b);
}

// The oldest: the owner goes on with the newest.
void scheduler::spill_fresh(processor& p) noexcept {
  spill_queue::batch* b = spilled_fresh_.make();
  if (b == nullptr) {
    runnable* items[spill_queue::batch_size];
    inject_all(injected_, items, p.fresh.take_half(items));
    return;
  }
  b->first = 0;
  b->end = p.fresh.take_half(b->items);
  spilled_fresh_.push(b);
}

// The oldest batch goes to the end of the ready queue. False: there was none.
bool scheduler::fetch_ready(processor& p) noexcept {
  spill_queue::batch* b = spilled_ready_.pop();
  if (b == nullptr) return false;
  for (std::uint32_t i = b->first; i < b->end; ++i) push_ready(p, b->items[i]);
  spilled_ready_.recycle(b);
  return true;
}

// For a processor that has run dry: the oldest batch. The oldest of it runs now; the others are taken from the back.
runnable* scheduler::pick_spilled_fresh(processor& p) noexcept {
  spill_queue::batch* b = spilled_fresh_.pop();
  if (b == nullptr) return nullptr;
  for (std::uint32_t i = b->end; --i > b->first;) push_fresh(p, b->items[i]);
  runnable* r = b->items[b->first];
  spilled_fresh_.recycle(b);
  return r;
}

// A share of the injection queue, for a processor that has run dry.
runnable* scheduler::pick_injected(processor& p) noexcept {
  const std::size_t share = injected_.size() / processors_.size() + 1;
  runnable* r = injected_.pop(std::min(share, injected_batch));
  if (r == nullptr) return nullptr;
  // The oldest runs now; the others keep their order: fresh ones are taken from the back, so they go in reverse.
  runnable* fresh = nullptr;
  for (runnable* each = r->next; each != nullptr;) {
    runnable* following = each->next;
    if (each->what == runnable::kind::fresh) {
      each->next = fresh;
      fresh = each;
    } else {
      push_ready(p, each);
    }
    each = following;
  }
  while (fresh != nullptr) {
    runnable* following = fresh->next;
    push_fresh(p, fresh);
    fresh = following;
  }
  return r;
}

bool scheduler::timers_due(const worker& w, const processor& p) const noexcept {
  if (w.current == nullptr) return false;  // on the native stack they have just been fired
  const deadline earliest = std::min(p.timers.earliest(), idle_deadline_.load(std::memory_order_relaxed));
  return earliest != no_deadline && earliest <= clock_.now();
}

std::size_t scheduler::fresh_count(const processor& p) const noexcept { return p.fresh.size() + spilled_fresh_.size(); }

// Fresh fibers come after ready ones, and old ones after new ones, but not for ever: who starts fibers in a loop and is
// ready again at once would leave them all behind, more and more of them. So every 16th pick that finds fresh ones
// looks at them. If in 10 ms few of the picks were theirs, or if they have become thousands more since there last were
// none, they get turns:
//
//   their turn   as many picks as there are fresh ones, but no more than a millisecond, and only until many more are
//                ready than when it began: parents whose children have ended go on, so that trees do not get broad
//   then         who is ready now runs, once each
//
// and so on, until a turn has served them all, or has only made them more, or nobody else has been ready for some
// picks. Meanwhile every pick is a rare one.
void scheduler::watch_fresh(processor& p, std::uint64_t tick, std::int64_t time) noexcept {
  const std::size_t count = fresh_count(p);
  if (p.fresh_since == 0) {
    p.fresh_least = count;
  } else {
    if (time - p.fresh_since < held_up_for) return;
    const bool held_up = (p.begun - p.begun_before) * few < tick - p.picks_before;
    if (held_up || count > p.fresh_least + many_fresh) {
      p.rare_mask = 0;
      p.fresh_since = 0;
      p.ready_turns = 0;
      p.unneeded = 0;
      return;
    }
    p.fresh_least = std::min(p.fresh_least, count);
  }
  p.fresh_since = time;
  p.picks_before = tick;
  p.begun_before = p.begun;
}

// In their turn, and in that of the others after it. What was just made ready waits for the latter.
runnable* scheduler::pick_held_up(processor& p) noexcept {
  if (p.next != nullptr) {
    push_ready(p, std::exchange(p.next, nullptr));
    p.has_next.store(false, std::memory_order_relaxed);
  }
  if (p.fresh_since == 0 && p.ready_turns == 0) {
    p.fresh_since = clock_.now();
    p.fresh_turns = p.fresh_least = fresh_count(p);
    p.ready_before = p.ready.size();
  } else if (p.ready_turns == 0 && !p.ready.empty() &&
             (p.ready.size() >= p.ready_before + many_ready || clock_.now() - p.fresh_since >= fresh_turn)) {
    p.fresh_since = 0;
    if (fresh_count(p) > p.fresh_least + processor::ring::capacity) {  // they start ever more of their kind
      p.rare_mask = rare - 1;
      return nullptr;
    }
    p.ready_turns = p.ready.size();
  }
  if (p.ready_turns != 0) {
    --p.ready_turns;
    if (runnable* r = p.ready.pop_front()) return r;
    p.ready_turns = 0;
  }
  p.unneeded = p.ready.empty() ? p.unneeded + 1 : 0;
  if (p.fresh_turns != 0 && p.unneeded < unneeded_picks) {
    --p.fresh_turns;
    if (runnable* r = p.fresh.pop_back()) return r;
    if (runnable* r = pick_spilled_fresh(p)) return r;
  }
  p.rare_mask = rare - 1;
  p.fresh_since = 0;
  return nullptr;
}

// Fairness, every 16th pick.
runnable* scheduler::pick_rare(processor& p, std::uint64_t tick) noexcept {
  if (tick % rare == 0) {
    if (tick % wake_latency::picks_between == 0) p.time_next_wake = true;
    // First, or what comes below might be the answer each time.
    if (tick % injected_every == 0)
      if (runnable* r = injected_.pop(1)) return r;
    if (tick % ready_every == 0) fetch_ready(p);
    if (tick % oldest_ready_every == oldest_ready_every / 4 && p.rare_mask != 0)
      if (runnable* r = p.ready.pop_front()) return r;
    if (p.fresh.empty() && spilled_fresh_.empty()) {
      if (p.rare_mask != 0) p.fresh_since = 0;
    } else {
      const deadline time = clock_.now();
      if (p.rare_mask != 0) watch_fresh(p, tick, time);
      if (time - p.last_oldest >= oldest_every) {
        p.last_oldest = time;
        if (runnable* r = spilled_fresh_.pop_one()) return r;
        if (runnable* r = p.fresh.pop_front()) return r;
      }
    }
    if (tick % fresh_every == fresh_every / 2) return p.fresh.pop_back();
  }
  return p.rare_mask == 0 ? pick_held_up(p) : nullptr;
}

runnable* scheduler::pick(worker& w, processor& p) noexcept { return pick_next<false>(w, p); }

// ---- making runnable -----------------------------------------------------------------------------------------------

// From a foreign thread, counted in visitors_: once the fiber is pushed it may run, and be the last whose end lets the
// runtime be destroyed; ~scheduler() waits for those who are still in here.
void scheduler::inject(runnable* r) noexcept {
  if (injected_count_.fetch_add(1, std::memory_order_relaxed) % wake_latency::injections_between == 0 &&
      r->what == runnable::kind::suspended)
    note_runnable(*static_cast<fiber*>(r));
  injected_.push(r);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with release_and_sleep(): the push, then idle_
  const std::uint32_t idle = idle_.load(std::memory_order_relaxed);
  if ((idle & idle_mask) != 0) wake_one();
  if ((idle & monitor_sleeps) != 0) wake_monitor();
  go_out();
}

// From a worker without a processor; what is moved has just been switched away from.
void scheduler::inject_own(fiber& f) noexcept {
  come_in();
  inject(&f);
}

// Never waits for a processor, even if the worker has lost its own, and never moves the calling fiber to another
// thread: a caller of what does not block may hold a lock of the operating system.
void scheduler::start(start_record* r) noexcept {
  tsan_release(r);
  worker* w = current_worker();
  processor* held = w != nullptr && w->home == this ? enter_or_take(*w) : nullptr;
  if (held == nullptr) [[unlikely]] {
    come_in();
    started_outside_.fetch_add(1, std::memory_order_relaxed);
    inject(r);
    return;
  }
  processor& p = *held;
  p.started.add();
  push_fresh(p, r);
  w->leave();
  light_fence();  // pairs with the heavy one in release_and_sleep(): the push, then idle_
  if (idle_.load(std::memory_order_relaxed) != 0) [[unlikely]]
    offer(p);
}

void scheduler::count_started() noexcept {
  worker* w = current_worker();
  processor* held = w != nullptr && w->home == this ? w->enter() : nullptr;
  if (held == nullptr) [[unlikely]] {
    started_outside_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  held->started.add();
  w->leave();
}

void scheduler::make_ready(fiber& f) noexcept {
  f.state.store(run_state::queued, std::memory_order_relaxed);
  make_ready(static_cast<runnable&>(f));
}

void scheduler::make_ready(runnable& r) noexcept {
  worker* w = current_worker();
  processor* held = w != nullptr && w->home == this ? enter_or_take(*w) : nullptr;
  if (held == nullptr) [[unlikely]] {
    if (w != nullptr) observe_wake(*w, nullptr, r);
    come_in();
    inject(&r);
    return;
  }
  processor& p = *held;
  if (p.time_next_wake | w->watched()) [[unlikely]]
    observe_wake(*w, held, r);
  runnable* queued = &r;
  // Timers, which fire on the native stack, wake in the order of their deadlines.
  if (p.next_left != 0 && w->current != nullptr) {
    queued = std::exchange(p.next, queued);
    if (!p.has_next.load(std::memory_order_relaxed)) p.has_next.store(true, std::memory_order_relaxed);
  }
  if (queued == nullptr) {
    w->leave();
    // It runs here as soon as the running fiber parks; the monitor sees to it if that takes long.
    light_fence();  // pairs with the heavy one in monitor()
    if (idle_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake_monitor();
    return;
  }
  push_ready(p, queued);
  w->leave();
  light_fence();
  if (idle_.load(std::memory_order_relaxed) != 0) [[unlikely]]
    offer(p);
}

// By the waker, before r can run. `held`: the waker's processor.
[[gnu::noinline]] void scheduler::observe_wake(worker& w, processor* held, runnable& r) noexcept {
  if (r.what != runnable::kind::suspended) return;
  auto& f = static_cast<fiber&>(r);
  if (w.watched()) trace_wake(w, f);
  if (held == nullptr || !held->time_next_wake) return;
  held->time_next_wake = false;
  note_runnable(f);
}

// Wake-up latency (wake_latency.hpp): by who makes the fiber runnable, before it does...
[[gnu::noinline]] void scheduler::note_runnable(fiber& f) noexcept {
  f.what = runnable::kind::timed;
  f.runnable_since = clock_.now();
}

// ...and by the holder of the processor that is about to run it.
[[gnu::noinline]] fiber* scheduler::note_running(processor& p, runnable* r) noexcept {
  auto& f = *static_cast<fiber*>(r);
  f.what = runnable::kind::suspended;
  p.latency.record(clock_.now() - f.runnable_since);
  return &f;
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

// Ids come in blocks, a worker each.
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

fiber* scheduler::new_stack() {
  const stack_pool::stack s = pool_.make();
  auto aligned = reinterpret_cast<std::uintptr_t>(s.top - sizeof(fiber)) & ~std::uintptr_t{63};
  auto* f = ::new (reinterpret_cast<void*>(aligned)) fiber(*this, s.bottom, s.top);
  waiter_access::seed(f->wait, pool_.incarnation());
  pool_.made(*f);
#if defined(COIR_ASAN)
  f->asan.bottom = s.bottom;
  f->asan.size = static_cast<std::size_t>(reinterpret_cast<char*>(f) - s.bottom);
#endif
  f->suspended = make_context(f, static_cast<std::size_t>(reinterpret_cast<char*>(f) - s.bottom), &first_entry);
  return f;
}

// The first thing on a new stack. Whoever switched here has made its fiber the current one.
void scheduler::first_entry(arrival from) noexcept {
  worker& w = *current_worker();
  fiber& self = *w.current;
  asan_finish_switch(self.asan, nullptr);
  self.home->after_switch(w, from.fctx);
  self.home->stack_main(self);
}

namespace {

// For watch_fresh(). A coroutine's turn is not one of theirs.
inline void note_begun(processor& p, const runnable& r) noexcept {
  if (r.what == runnable::kind::fresh) ++p.begun;
}

}  // namespace

// For what is not merely suspended: one whose wake-up latency is measured has it noted; a fresh one gets a stack, a
// free one. Null if there is none: w.unstarted.
fiber* scheduler::stack_for(worker& w, processor& p, runnable* fresh) noexcept {
  if (fresh->what == runnable::kind::timed) [[unlikely]]
    return note_running(p, fresh);
  note_begun(p, *fresh);
  std::size_t free = p.stack_count.value();
  if (free == 0) [[unlikely]] {
    p.cold_stacks = free = pool_.take(p.stacks, processor::stack_cache / 2);
    if (free == 0) {
      w.unstarted = static_cast<start_record*>(fresh);
      return nullptr;
    }
  }
  fiber* f = p.stacks[--free];
  p.stack_count.set(free);
  if (free < p.cold_stacks) [[unlikely]] {
    p.cold_stacks = free;
    prefetch_stacks(p.stacks, free);
  }
  f->record = static_cast<start_record*>(fresh);
  return f;
}

// On the native stack: to ask the system for memory takes time, in which a fiber that parks would hold the lock of what
// it waits at.
fiber& scheduler::new_stack_for(start_record& fresh) noexcept {
  fiber* f = nullptr;
  try {
    f = new_stack();
  } catch (const std::exception& e) {
    fatal("no stack for a fiber spawned at ", fresh.file, ':', fresh.line, ": ", e.what());
  }
  f->record = &fresh;
  return *f;
}

void scheduler::retire_stack(processor* held, fiber& f) noexcept {
  if (held == nullptr) [[unlikely]] {
    fiber* one = &f;
    pool_.put(&one, 1);
    return;
  }
  processor& p = *held;
  std::size_t free = p.stack_count.value();
  if (free == processor::stack_cache) [[unlikely]] {
    free = processor::stack_cache / 2;  // the colder half goes to the shared store
    p.cold_stacks -= std::min(p.cold_stacks, processor::stack_cache - free);
    pool_.put(p.stacks, processor::stack_cache - free);
    const tsan_section section(&p);
    std::copy(p.stacks + processor::stack_cache - free, p.stacks + processor::stack_cache, p.stacks);
  }
  p.stacks[free] = &f;
  p.stack_count.set(free + 1);
}

// Runs the record's closure as a fiber on this stack. Bracket open at entry, closed on return.
void scheduler::run_fiber(fiber& self) noexcept {
  worker& w = *self.on;
  start_record* record = self.record;
  std::atomic_thread_fence(std::memory_order_release);  // free, then what follows: pairs with take_snapshot()
  self.id = new_id(w);
  self.spawn_file = record->file;
  self.line = record->line;
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

  try {
    record->run(record);
  } catch (const cancelled&) {
    // the normal end of a cancelled fiber
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    std::fprintf(stderr, "coir: an exception left a fiber: %s\ncoir: in %s\n", describe(error).c_str(),
                 describe(self).c_str());
    std::fflush(stderr);
    std::terminate();
  }
  if (debug_.stackuse != 0) [[unlikely]]
    note_stack_use(self);
  end_fiber(self);
  tsan_release(this);  // for who waits until the runtime is drained
}

void scheduler::stack_main(fiber& self) noexcept {
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
      if (r->what != runnable::kind::timed) [[likely]] {
        self.record = static_cast<start_record*>(r);  // the warm stack of one that has just ended: no switch at all
        note_begun(p, *r);
        continue;
      }
      note_running(p, r);
    }
    w.what_after = worker::after::retired;
    switch_to(w, &self, static_cast<fiber*>(r));
  }
}

}  // namespace coir::detail
