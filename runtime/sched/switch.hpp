// Picking the next fiber and switching to it: the hot path of every park, yield and end of a fiber, inlined into each
// of them. A context switch spoils the CPU's return predictions, so each return between here and the user's code costs
// a mispredicted branch: the fewer calls the better.
#pragma once

#include <algorithm>
#include <utility>

#include <coir/detail/abi.hpp>

#include "base/clock.hpp"
#include "base/prefetch.hpp"
#include "fiber/waiter_access.hpp"
#include "sched/events.hpp"
#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI::detail {

/// One pick in this many looks at timers and shared queues. Where picks are short, that is sooner than the monitor
/// would ask for it. It is a bound on nothing.
inline constexpr std::uint64_t counted_pick = 64;
inline constexpr std::int64_t cold_after = 100'000;  // ns after which a fiber has left the caches

/// Null: the worker has lost its processor, and none is idle.
[[gnu::always_inline]] inline processor* scheduler::enter_or_take(worker& w) noexcept {
  processor* p = w.enter();
  if (p == nullptr && take_idle_for(w)) [[unlikely]]
    p = w.enter();
  return p;
}

/// `next` runs where it was made runnable.
[[gnu::always_inline]] inline void taken_by_owner(worker& w, processor& p) noexcept {
  if (p.next_is.load(std::memory_order_relaxed) == next_state::offered && w.current != nullptr) [[unlikely]] {
    // A worker has been woken for nothing.
    std::atomic<std::uint8_t>& habit = w.current->habit;
    if (const std::uint8_t h = habit.load(std::memory_order_relaxed); h < waker_habit::parks)
      habit.store(static_cast<std::uint8_t>(h + 1), std::memory_order_relaxed);
  }
  p.next_is.store(next_state::none, std::memory_order_relaxed);
}

[[gnu::always_inline]] inline runnable* pop_oldest(const scheduler& home, processor::ring& ring) noexcept {
  runnable* r = ring.pop_front();
  // Prefetches for fibers that run soon: first a fiber's control block; two picks later its stack, and the record that
  // holds what its function captured. For a fiber that has been away for long, also what it needs on its way back to
  // its function, and to its end.
  if (ring.size() > 3) [[unlikely]] {
    prefetch_lines<3>(ring.peek(3));
    if (runnable* soon = ring.peek(1); soon->what == runnable::kind::suspended) {
      const fiber& f = *static_cast<fiber*>(soon);
      prefetch_lines<3>(f.suspended);
      prefetch_lines<1>(f.record);
      if (home.coarse_time() - f.since >= cold_after) [[unlikely]] {
        prefetch_lines<5>(static_cast<const char*>(f.suspended) + 3 * cache_line);
        prefetch_lines<sizeof(fiber) / cache_line - 3>(reinterpret_cast<const char*>(&f) + 3 * cache_line);
      }
    }
  }
  return r;
}

template <bool Yielding>
[[gnu::always_inline]] inline runnable* scheduler::pick_next(worker& w, processor& p, bool& fire) noexcept {
  if (explorer* const e = explored_by()) return e->pick();
  const std::uint64_t tick = p.tick.load(std::memory_order_relaxed) + 1;
  p.tick.store(tick, std::memory_order_relaxed);
  if (tick % counted_pick == 0 || p.attention.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    runnable* r = pick_out_of_turn(w, p, tick, fire);
    if (r != nullptr || fire) return r;
  }
  if (runnable* r = p.next) {
    p.next = nullptr;
    if (p.next_is.load(std::memory_order_relaxed) != next_state::none) taken_by_owner(w, p);
    return r;
  }
  if (!p.ready.empty()) return pop_oldest(*this, p.ready);
  if (runnable* r = p.fresh.pop_back()) return r;
  if constexpr (Yielding)
    if (!p.yielded.empty()) return pop_oldest(*this, p.yielded);
  return pick_last(p);
}

[[gnu::always_inline]] inline void scheduler::after_switch(worker& w, machine_context left) noexcept {
  tsan_acquire(&w);
  *w.save_to = left;
  if (w.what_after == worker::after::parked) {
    w.what_after = worker::after::nothing;
    fiber& f = *w.left;
    waiter_access::publish(f.wait);
    // From here on the fiber may be claimed, and with its lock released it may run and end: it is not touched again.
    if (w.release == nullptr)
      static_cast<spin_lock*>(w.release_arg)->unlock();
    else
      w.release(w.release_arg);
  } else if (w.what_after == worker::after::retired) {
    w.what_after = worker::after::nothing;
    if (explorer* const e = explored_by(); e == nullptr || !e->keeps_stack(*w.left)) stacks_.put(w.held, *w.left);
  } else if (w.what_after == worker::after::requeued) [[unlikely]] {
    w.what_after = worker::after::nothing;
    inject(w.left);
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
  const machine_context target = to != nullptr ? to->suspended : w.native;
  if (to != nullptr) {
    to->on = &w;
    to->state.store(run_state::running, std::memory_order_relaxed);
  }
  asan_stack& left_asan = from != nullptr ? from->asan : w.asan;
  asan_start_switch(&left_asan, to != nullptr ? to->asan : w.asan);
  tsan_switch(to != nullptr ? to->tsan : w.tsan);
  const machine_context left = switch_context(target);
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
  bool fire = false;  // the native stack is switched to either way
  switch_away_to(pick_next<false>(w, p, fire), f, w, p);
}

[[gnu::always_inline]] inline void scheduler::yield(fiber& f, worker& w) noexcept {
  processor* held = w.enter();
  if (held == nullptr) [[unlikely]] {
    rejoin(f, w);
    return;
  }
  processor& p = *held;
  bool fire = false;
  runnable* r = pick_next<true>(w, p, fire);
  if (r == nullptr && !fire && !timers_due(w, p)) {
    w.leave();
    return;  // nobody else
  }
  // Pushed before the switch, but after the pick, which may move fibers from the ring to a shared queue. In the ring
  // nobody else can take it while the bracket is open. The next context closes the bracket after it has saved this
  // context.
  f.state.store(run_state::queued, std::memory_order_relaxed);
  f.since = coarse_time();
  queues_.push_yielded(p, &f);
  switch_away_to(r, f, w, p);
  f.on->leave();
}

}  // namespace coir::detail
