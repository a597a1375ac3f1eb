#include "switch.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <utility>

#include "report.hpp"

// Picking. A processor looks, in this order, at
//   next    the fiber that the running one has just made ready: it finds its data warm, and a pair that talks stays on
//   one
//           processor. It inherits the time slice: after next_budget picks in a row a ready fiber goes to the queue.
//   ready   oldest first
//   fresh   newest first: depth first, so that a tree of fibers needs stacks for a path and not for a level
//   the injection queue (from foreign threads), then what has spilled over from full rings, ready before fresh.
// A fiber that yields lets the fresh ones go before the ready queue, that it has just joined itself.
// So that nothing starves, every 64th pick takes an injected one first and every 64th the newest fresh one, every 128th
// exchanges a batch of spilled ready ones, and every millisecond the oldest fresh one of all has its turn. Timers are
// looked at every 16th pick if there are any, and whenever the queues run dry.
//
// Switching. switch_to() leaves work for the other side of the switch (worker::what_after) since a context can only be
// published once it has been left. The bracket (worker.hpp) is open all the while.

namespace coir::detail {

namespace {

constexpr std::size_t stack_cache = 256;
constexpr std::size_t injected_batch = 64;
}  // namespace

// ---- queues --------------------------------------------------------------------------------------------------------

namespace {

spill_queue::batch& new_batch(spill_queue& q) noexcept {
  static_assert(spill_queue::batch_size == processor::ring::capacity / 2);
  spill_queue::batch* b = q.make();
  if (b == nullptr) fatal("no memory to queue more fibers");
  b->first = 0;
  return *b;
}

}  // namespace

// The newest: those at the front have waited longest, and are to run next.
void scheduler::spill_ready(processor& p) noexcept {
  spill_queue::batch& b = new_batch(spilled_ready_);
  b.end = p.ready.take_newest_half(b.items);
  spilled_ready_.push(&b);
}

// The oldest: the owner goes on with the newest.
void scheduler::spill_fresh(processor& p) noexcept {
  spill_queue::batch& b = new_batch(spilled_fresh_);
  b.end = p.fresh.take_half(b.items);
  spilled_fresh_.push(&b);
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

// Fairness, every 16th pick.
runnable* scheduler::pick_rare(processor& p, std::uint32_t tick) noexcept {
  if (tick % ready_every == 0) fetch_ready(p);
  if (!p.fresh.empty() || !spilled_fresh_.empty()) {
    const deadline time = clock_.now();
    if (time - p.last_oldest >= oldest_every) {
      p.last_oldest = time;
      if (runnable* r = spilled_fresh_.pop_one()) return r;
      if (runnable* r = p.fresh.pop_front()) return r;
    }
  }
  if (tick % injected_every == 0) return injected_.pop(1);
  if (tick % fresh_every == fresh_every / 2) return p.fresh.pop_back();
  return nullptr;
}

runnable* scheduler::pick(worker& w, processor& p) noexcept { return pick_next<false>(w, p); }

// ---- making runnable -----------------------------------------------------------------------------------------------

// From a foreign thread, counted in visitors_: once the fiber is pushed it may run, and be the last whose end lets the
// runtime be destroyed; ~scheduler() waits for those who are still in here.
void scheduler::inject(runnable* r) noexcept {
  injected_.push(r);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with release_and_sleep(): the push, then idle_
  if (idle_.load(std::memory_order_relaxed) != 0) wake_one();
  visitors_.fetch_sub(1, std::memory_order_release);  // the last touch; pairs with stop_threads()
}

void scheduler::start(start_record* r) noexcept {
  tsan_release(r);
  worker* w = current_worker();
  if (w == nullptr || w->home != this) {
    visitors_.fetch_add(1, std::memory_order_relaxed);
    started_outside_.fetch_add(1, std::memory_order_relaxed);
    inject(r);
    return;
  }
  processor& p = w->enter();
  ++p.started;
  push_fresh(p, r);
  w->leave();
  light_fence();  // pairs with the heavy one in release_and_sleep(): the push, then idle_
  if (idle_.load(std::memory_order_relaxed) != 0) [[unlikely]]
    offer(p);
}

void scheduler::make_ready(fiber& f) noexcept {
  f.state.store(run_state::queued, std::memory_order_relaxed);
  worker* w = current_worker();
  if (w == nullptr || w->home != this) {
    visitors_.fetch_add(1, std::memory_order_relaxed);
    inject(&f);
    return;
  }
  processor& p = w->enter();
  runnable* queued = &f;
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

fiber* scheduler::stack_for(worker&, processor& p, runnable* fresh) noexcept {
  fiber* f = p.stacks;
  if (f == nullptr) [[unlikely]] {
    f = pool_.take(stack_cache / 2, p.stack_count);
    if (f == nullptr) {
      try {
        f = new_stack();
      } catch (const std::exception& e) {
        fatal("no stack for a fiber spawned at ", static_cast<start_record*>(fresh)->file, ':', fresh->line, ": ",
              e.what());
      }
      f->record = static_cast<start_record*>(fresh);
      return f;
    }
  }
  p.stacks = static_cast<fiber*>(f->next);
  --p.stack_count;
  f->record = static_cast<start_record*>(fresh);
  return f;
}

void scheduler::retire_stack(processor& p, fiber& f) noexcept {
  f.next = p.stacks;
  p.stacks = &f;
  if (++p.stack_count <= stack_cache) return;
  // The colder half goes to the shared store.
  fiber* last_kept = p.stacks;
  for (std::size_t i = 1; i < stack_cache / 2; ++i) last_kept = static_cast<fiber*>(last_kept->next);
  auto* first = static_cast<fiber*>(last_kept->next);
  last_kept->next = nullptr;
  fiber* last = first;
  std::size_t n = 1;
  for (; last->next != nullptr; ++n) last = static_cast<fiber*>(last->next);
  p.stack_count -= n;
  pool_.put(first, last, n);
}

// Runs the record's closure as a fiber on this stack. Bracket open at entry and on return.
void scheduler::run_fiber(fiber& self) noexcept {
  worker& w = *self.on;
  start_record* record = self.record;
  self.id = new_id(w);
  self.spawn_file = record->file;
  self.line = record->line;
  self.cancel_requested.store(false, std::memory_order_relaxed);
  self.in_deadlock = false;
  self.state.store(run_state::running, std::memory_order_relaxed);
  light_fence();  // pairs with cancel_all()'s: the state, then the flag
  if (cancel_all_.load(std::memory_order_relaxed)) [[unlikely]]
    self.cancel_requested.store(true, std::memory_order_relaxed);
  tsan_acquire(record);
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
  end_fiber(self);
  tsan_release(this);  // for who waits until the runtime is drained
  self.on->enter();
}

void scheduler::stack_main(fiber& self) noexcept {
  for (;;) {
    run_fiber(self);
    worker& w = *self.on;
    processor& p = *w.held;
    ++p.ended;
    self.state.store(run_state::free, std::memory_order_relaxed);
    runnable* r = pick(w, p);
    if (r != nullptr && r->what == runnable::kind::fresh) {
      self.record = static_cast<start_record*>(r);  // the warm stack of one that has just ended: no switch at all
      continue;
    }
    w.what_after = worker::after::retired;
    switch_to(w, &self, static_cast<fiber*>(r));
  }
}

}  // namespace coir::detail
