// Picking the next fiber and switching to it: the hot path of every park, yield and end of a fiber, inlined into each
// of them. A context switch spoils the CPU's return predictions, so each return between here and the user's code costs
// a mispredicted branch: the fewer calls the better.
#pragma once

#include <algorithm>
#include <utility>

#include "clock.hpp"
#include "prefetch.hpp"
#include "scheduler.hpp"
#include "trace.hpp"
#include "waiter_access.hpp"

namespace coir::detail {

inline constexpr std::uint32_t next_budget = 128;
inline constexpr std::uint32_t injected_every = 64;
inline constexpr std::uint32_t fresh_every = 64;
inline constexpr std::uint32_t ready_every = 128;
inline constexpr std::uint32_t oldest_ready_every = 64;
inline constexpr std::int64_t cold_after = 100'000;      // ns after which a fiber has left the caches
inline constexpr std::int64_t oldest_every = 1'000'000;  // ns
inline constexpr std::int64_t held_up_for = 10'000'000;
inline constexpr std::int64_t fresh_turn = 1'000'000;
inline constexpr std::uint64_t few = 8;  // picks of which one is too few
inline constexpr std::size_t many_fresh = 4096;
inline constexpr std::uint32_t many_ready = 16;
inline constexpr std::uint32_t unneeded_picks = 16;

/// Null: the worker has lost its processor, and none is idle.
[[gnu::always_inline]] inline processor* scheduler::enter_or_take(worker& w) noexcept {
  processor* p = w.enter();
  if (p == nullptr && take_idle_for(w)) [[unlikely]]
    p = w.enter();
  return p;
}

[[gnu::always_inline]] inline void scheduler::push_ready(processor& p, runnable* r) noexcept {
  if (p.ready.full()) [[unlikely]]
    spill_ready(p);
  p.ready.push_back(r);
}

[[gnu::always_inline]] inline void scheduler::push_fresh(processor& p, runnable* r) noexcept {
  if (p.fresh.full()) [[unlikely]]
    spill_fresh(p);
  p.fresh.push_back(r);
}

template <bool Yielding>
[[gnu::always_inline]] inline runnable* scheduler::pick_next(worker& w, processor& p) noexcept {
  const std::uint64_t tick = p.tick.load(std::memory_order_relaxed) + 1;
  if ((tick & p.rare_mask) == 0) [[unlikely]] {
    // Timers are fired on the native stack: a fiber that is about to park cannot fire its own. The tick stays, so that
    // the native stack's pick is the rare one.
    if (tick % rare == 0 && timers_due(w, p)) return nullptr;
    p.tick.store(tick, std::memory_order_relaxed);
    if (runnable* r = pick_rare(p, tick)) return r;
  } else {
    p.tick.store(tick, std::memory_order_relaxed);
  }
  if (runnable* r = p.next) {
    p.next = nullptr;
    if (p.has_next.load(std::memory_order_relaxed)) p.has_next.store(false, std::memory_order_relaxed);
    if (p.next_left != 0) --p.next_left;
    return r;
  }
  p.next_left = next_budget;
  if constexpr (Yielding) {
    if (runnable* r = p.fresh.pop_back()) return r;
    if (!spilled_fresh_.empty()) [[unlikely]]
      if (runnable* r = pick_spilled_fresh(p)) return r;
  }
  if (runnable* r = p.ready.pop_front()) {
    // First its control block, two picks later its stack, and the record that holds what its function captured. Of one
    // that has been away for long also what it needs on its way back to its function, and to its end.
    if (p.ready.size() > 3) [[unlikely]] {
      prefetch_lines<2>(p.ready.peek(3));
      if (runnable* soon = p.ready.peek(1); soon->what == runnable::kind::suspended) {
        const fiber& f = *static_cast<fiber*>(soon);
        prefetch_lines<3>(f.suspended);
        prefetch_lines<1>(f.record);
        if (coarse_time() - f.since >= cold_after) [[unlikely]] {
          prefetch_lines<5>(static_cast<const char*>(f.suspended) + 3 * cache_line);
          prefetch_lines<sizeof(fiber) / cache_line - 2>(reinterpret_cast<const char*>(&f) + 2 * cache_line);
        }
      }
    }
    return r;
  }
  if constexpr (!Yielding)
    if (runnable* r = p.fresh.pop_back()) return r;
  if (!injected_.empty()) [[unlikely]]
    if (runnable* r = pick_injected(p)) return r;
  if (!spilled_ready_.empty()) [[unlikely]]
    if (fetch_ready(p)) return p.ready.pop_front();
  if (!spilled_fresh_.empty()) [[unlikely]]
    if (runnable* r = pick_spilled_fresh(p)) return r;
  p.fruitless.add();
  return nullptr;
}

[[gnu::always_inline]] inline void scheduler::after_switch(worker& w, context left) noexcept {
  tsan_acquire(&w);
  *w.save_to = left;
  if (w.what_after == worker::after::parked) {
    w.what_after = worker::after::nothing;
    fiber& f = *w.left;
    spin_lock* lock = w.release_lock;
    void (*release)(void*) noexcept = w.release;
    void* arg = w.release_arg;
    waiter_access::publish(f.wait);
    // From here on the fiber may be claimed, and with its lock released it may run and end: it is not touched again.
    if (lock != nullptr)
      lock->unlock();
    else if (release != nullptr)
      release(arg);
  } else if (w.what_after == worker::after::retired) {
    w.what_after = worker::after::nothing;
    retire_stack(w.held, *w.left);
  } else if (w.what_after == worker::after::requeued) [[unlikely]] {
    w.what_after = worker::after::nothing;
    inject_own(*w.left);
  }
}

[[gnu::always_inline]] inline void scheduler::switch_to(worker& w, fiber* from, fiber* to) noexcept {
  if (w.watched())
      [[unlikely]]  // first, while few registers are in use: the call costs nothing then when it is not made
    trace_switch(w, from, to);
  // null: the worker's native stack
  exception_state& exceptions = from != nullptr ? from->exceptions : w.native_exceptions;
  exceptions = *w.exceptions;
  *w.exceptions = to != nullptr ? to->exceptions : w.native_exceptions;
  w.left = from;
  w.save_to = from != nullptr ? &from->suspended : &w.native;
  w.current = to;
  // For the thread's end, whose destructors see what fibers left in its thread_locals, and for stop_hook.
  tsan_release(&w.thread);
  const context target = to != nullptr ? to->suspended : w.native;
  if (to != nullptr) {
    to->on = &w;
    to->state.store(run_state::running, std::memory_order_relaxed);
  }
  asan_stack& left_asan = from != nullptr ? from->asan : w.asan;
  asan_start_switch(&left_asan, to != nullptr ? to->asan : w.asan);
  tsan_switch(to != nullptr ? to->tsan : w.tsan);
  const context left = switch_context(target);
  asan_finish_switch(left_asan, nullptr);
  // The worker is looked up in what the switcher left: `from` may be on another thread now.
  after_switch(from != nullptr ? *from->on : w, left);
}

[[gnu::always_inline]] inline void scheduler::switch_away_to(runnable* r, fiber& f, worker& w, processor& p) noexcept {
  if (r == nullptr) {
    switch_to(w, &f, nullptr);
  } else if (r->what == runnable::kind::suspended) {
    switch_to(w, &f, static_cast<fiber*>(r));
  } else {
    switch_to(w, &f, stack_for(w, p, r));
  }
}

[[gnu::always_inline]] inline void scheduler::switch_away(fiber& f, worker& w, processor& p) noexcept {
  switch_away_to(pick_next<false>(w, p), f, w, p);
}

[[gnu::always_inline]] inline void scheduler::yield(fiber& f, worker& w) noexcept {
  processor* held = w.enter();
  if (held == nullptr) [[unlikely]] {
    rejoin(f, w);
    return;
  }
  processor& p = *held;
  runnable* r = pick_next<true>(w, p);
  if (r == nullptr && !timers_due(w, p)) {
    w.leave();
    return;  // nobody else
  }
  // Pushed before the switch, but after the pick, which may move fibers from the ring to a shared queue. In the ring
  // nobody else can take it while the bracket is open, and that stays open until who is switched to has saved its
  // context.
  f.state.store(run_state::queued, std::memory_order_relaxed);
  f.since = coarse_time();
  push_ready(p, &f);
  switch_away_to(r, f, w, p);
  f.on->leave();
}

}  // namespace coir::detail
