// The sleeper's and the waker's side of the park protocol (park.hpp) for fibers and plain threads.
#include <coir/detail/park.hpp>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/detail/local_table.hpp>
#include <coir/detail/stackless.hpp>
#include <coir/error.hpp>
#include <coir/this_fiber.hpp>

#include "base/clock.hpp"
#include "base/futex.hpp"
#include "base/immortal.hpp"
#include "base/report.hpp"
#include "base/sanitizer.hpp"
#include "sched/switch.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

/// A plain thread's waiter. `signal` is the waker's last touch: after it the thread may end, and futex_wake() on an
/// address that is gone is harmless.
struct thread_waiter {
  thread_waiter() noexcept { register_asymmetric_fence(); }  // it may wait before there is a runtime

  waiter wait{waiter::kind::thread};
  std::atomic<std::uint32_t> signal{0};
};

[[gnu::noinline]] thread_waiter& this_thread_waiter() noexcept {
  thread_local thread_waiter w;
  asm volatile("" : : "r"(&w) : "memory");
  return w;
}

thread_waiter& thread_of(waiter& w) noexcept {
  static_assert(std::is_standard_layout_v<thread_waiter> && offsetof(thread_waiter, wait) == 0);
  return reinterpret_cast<thread_waiter&>(w);
}

void fire_timeout(void* arg, std::uint64_t word) noexcept {
  auto& w = *static_cast<waiter*>(arg);
  if (w.claim_from_outside(word, waiter::timed_out)) unpark(w);
}

wake park_thread(waiter& self, void (*release)(void*) noexcept, void* arg, deadline until) noexcept {
  thread_waiter& t = thread_of(self);
  t.signal.store(0, std::memory_order_relaxed);
  const std::uint64_t word = self.word();
  waiter_access::publish(self);
  release(arg);
  // acquire: pairs with the release in unpark()
  while (t.signal.load(std::memory_order_acquire) == 0) {
    futex_wait(t.signal, 0, until);
    if (until == no_deadline || t.signal.load(std::memory_order_acquire) != 0 || monotonic_now() < until) continue;
    if (self.claim_from_outside(word, waiter::timed_out)) break;
    until = no_deadline;  // another thread has claimed: the signal is on its way
  }
  tsan_acquire(&self);
  return waiter_access::outcome(self);
}

// For a fiber whose worker has lost its processor. It needs one only for its timer, and must not wait for one, because
// it holds the primitive's lock. Returns an idle processor, bracket open, if it got one.
[[gnu::noinline]] processor* park_without(fiber& f, worker& w, deadline until) noexcept {
  if (until == no_deadline) return nullptr;
  for (;;) {
    if (processor* other = w.home->borrow(w)) {
      w.home->arm(f, *other, until, f.wait.word());
      other->unlock();
      return nullptr;
    }
    if (processor* mine = w.enter()) return mine;
  }
}

// One function for all who park, so that the CPU predicts the returns behind the switch (context_switch.hpp). `release`
// null: `arg` is a spin_lock. f.why has been set.
[[gnu::noinline]] wake park_fiber(fiber& f, void (*release)(void*) noexcept, void* arg, deadline until) noexcept {
  worker& w = *f.on;
  w.what_after = worker::after::parked;
  w.release = release;
  w.release_arg = arg;
  processor* p = w.enter();
  if (p == nullptr) [[unlikely]]
    p = park_without(f, w, until);
  f.since = w.home->coarse_time();
  tsan_release(&f);  // for reports
  if (p != nullptr) [[likely]] {
    if (until != no_deadline && f.timer == nullptr) w.home->arm(f, *p, until, f.wait.word());
    p->parked.add();
    w.home->switch_away(f, w, *p);
  } else {
    w.home->switch_away_without(f, w);
  }
  if (f.timer != nullptr) f.home->disarm(f);
  f.on->leave();
  tsan_acquire(&f.wait);
  return waiter_access::outcome(f.wait);
}

[[gnu::always_inline]] inline bool begin(waiter& self) noexcept {
  waiter_access::begin(self);
  light_fence();  // pairs with the heavy one in claim_to_give_up(): the word, then the reasons
  if (waiter_access::must_give_up(self)) [[unlikely]] {
    waiter_access::abandon(self);
    return false;
  }
  return true;
}

wake park_thread(waiter& self, spin_lock& lock, deadline until) noexcept {
  return park_thread(self, [](void* l) noexcept { static_cast<spin_lock*>(l)->unlock(); }, &lock, until);
}

/// The first steps of park_in(). True: the waiter parks next.
[[gnu::always_inline]] inline bool enqueue(waiter& self, wait_place at, wait_node& node) noexcept {
  node.who = &self;
  tsan_release(&at.lock);  // either way it is unlocked in code that TSan does not see
  if (!begin(self)) [[unlikely]] {
    at.lock.unlock();
    return false;
  }
  if (!node.queued) at.queue.push_back(node);
  return true;
}

[[gnu::noinline]] wake park_thread_in(wait_place at, wait_node& node, deadline until) noexcept {
  waiter& self = this_thread_waiter().wait;
  return enqueue(self, at, node) ? park_thread(self, at.lock, until) : wake::cancelled;
}

}  // namespace

deadline now() noexcept {
  const worker* w = current_worker();
  return w != nullptr ? w->home->clock().now() : monotonic_now();
}

[[gnu::noinline]] waiter& this_waiter() noexcept {
  const worker* w = current_worker_at_entry();
  return w != nullptr && w->current != nullptr ? w->current->wait : this_thread_waiter().wait;
}

bool waiter::claim_from_outside(std::uint64_t word, state as, wait_node* node) noexcept {
  backoff wait;
  for (;;) {
    // acquire: pairs with waiter_access::publish()
    std::uint64_t seen = word_.load(std::memory_order_acquire);
    if ((seen & ~state_mask) != (word & ~state_mask)) return false;
    if ((seen & state_mask) == parking) {
      wait();  // the fiber is being switched away from: wait for the length of that switch
      continue;
    }
    if ((seen & state_mask) != waiting) return false;
    if (!word_.compare_exchange_strong(seen, (seen & ~state_mask) | as, std::memory_order_acq_rel)) continue;
    fired_node_ = node;
    return true;
  }
}

bool begin_wait(waiter& self) noexcept { return begin(self); }

void abandon_wait(waiter& self) noexcept { waiter_access::abandon(self); }

wake park(waiter& self, spin_lock& lock, wait_reason why, deadline until) noexcept {
  tsan_release(&lock);
  if (!waiter_access::is_fiber(self)) return park_thread(self, lock, until);
  fiber& f = fiber_of(self);
  f.why = why;
  return park_fiber(f, nullptr, &lock, until);
}

wake park(waiter& self, void (*release)(void*) noexcept, void* arg, wait_reason why, deadline until) noexcept {
  if (!waiter_access::is_fiber(self)) return park_thread(self, release, arg, until);
  fiber& f = fiber_of(self);
  f.why = why;
  return park_fiber(f, release, arg, until);
}

// The hot path of almost everything that blocks. It calls nothing before its end, so it needs no stack frame.
[[gnu::noinline]] wake park_in(wait_place at, wait_node& node, wait_reason why, deadline until) noexcept {
  const worker* w = current_worker_at_entry();
  if (w == nullptr || w->current == nullptr) [[unlikely]]
    return park_thread_in(at, node, until);
  fiber& f = *w->current;
  f.why = why;  // first, from the registers: a copy of where they are spilled to would stall
  return enqueue(f.wait, at, node) ? park_fiber(f, nullptr, &at.lock, until) : wake::cancelled;
}

void unpark(waiter& who) noexcept {
  tsan_release(&who);
  if (waiter_access::is_fiber(who)) {
    fiber& f = fiber_of(who);
    f.on->home->make_ready(f);  // f.home is in a cache line that is not needed otherwise
    return;
  }
  if (waiter_access::is_stackless(who)) return static_cast<stackless&>(who).make_ready();
  std::atomic<std::uint32_t>& signal = thread_of(who).signal;
  signal.store(1, std::memory_order_release);  // the last touch
  futex_wake(signal);
}

void throw_cancelled() { throw cancelled(); }
// A copy, which needs no memory for the text: a fiber must unwind without any.
void throw_timed_out() { throw timed_out(immortal<timed_out>()); }

void lock_wait::open(waiter& self) noexcept { waiter_access::open_lock_wait(self); }
void lock_wait::close(waiter& self) noexcept { waiter_access::close_lock_wait(self); }

void park_forever(wait_reason why) {
  for (;;) {
    waiter& self = this_waiter();
    if (!begin_wait(self)) throw_cancelled();
    if (park(self, [](void*) noexcept {}, nullptr, why) == wake::cancelled) throw_cancelled();
  }
}

void sleep_until_deadline(deadline until) {
  decide(operation::sleep);
  if (until > now()) park_until(until);
}

void park_until(deadline until) {
  waiter& self = this_waiter();
  if (!begin_wait(self)) throw_cancelled();
  if (park(self, [](void*) noexcept {}, nullptr, {"sleep"}, until) == wake::cancelled) throw_cancelled();
}

[[gnu::noinline]] unsigned processors_without_work() noexcept {
  worker* w = current_worker();
  if (w == nullptr) return 0;
  const std::uint32_t looking = w->home->looking_for_work();
  if (looking == 0) return 0;
  processor* p = w->enter();
  if (p == nullptr) return looking;  // it has lost its own, and with it what waits there
  const std::uint32_t waiting = p->fresh.size();
  w->leave();
  return looking > waiting ? looking - waiting : 0;
}

// In an exploration, the processor's source is seeded anew for each schedule.
[[gnu::noinline]] std::uint64_t random_bits() noexcept {
  if (worker* w = current_worker()) {
    if (processor* p = w->enter()) {
      const std::uint64_t bits = p->random();
      w->leave();
      return bits;
    }
  }
  thread_local random_source source{static_cast<std::uint64_t>(monotonic_now()) ^
                                    reinterpret_cast<std::uintptr_t>(&this_thread_waiter())};
  return source();
}

namespace {

/// Claims the wait that is under way, if it may be disturbed. Called just after a reason to give up has been added.
bool claim_to_give_up(waiter& w) noexcept {
  heavy_fence();  // pairs with the light one in begin_wait(): the reasons, then the word
  const std::uint64_t word = waiter_access::acquire_word(w);
  const std::uint64_t state = word & waiter::state_mask;
  // The sections are read after the word: if the word is of a wait inside an uncancellable one, they say so.
  return (state == waiter::parking || state == waiter::waiting) && !waiter_access::is_uncancellable(w) &&
         w.claim_from_outside(word, waiter::cancelled);
}

}  // namespace

std::optional<std::stop_source> cancel_fiber(fiber& f) noexcept {
  waiter_access::set_for_good(f.wait);
  if (claim_to_give_up(f.wait)) unpark(f.wait);
  return f.stop.copy();
}

bool expire(waiter& who) noexcept {
  waiter_access::add_expired(who);
  return claim_to_give_up(who);
}

void forget_expiry(waiter& self) noexcept { waiter_access::drop_expired(self); }

bool cancelled_for_good(const waiter& self) noexcept { return waiter_access::is_for_good(self); }

void end_fiber(fiber& f) noexcept {
  if (f.locals != nullptr) [[unlikely]]
    end_locals();
  if (worker& w = *f.on; w.watched()) [[unlikely]]
    trace_end(w, f);
  f.name.drop();
  waiter_access::reset_uncancellable(f.wait);
  f.stop.drop();
}

// ---- timers of waits -----------------------------------------------------------------------------------------------

// The fiber is queued, with a primitive's lock held: too late to throw.
void scheduler::arm(fiber& f, processor& p, deadline when, std::uint64_t word) noexcept {
  try {
    f.timer = push_timer(p, when, &fire_timeout, &f.wait, word);
  } catch (const std::bad_alloc&) {
    fatal("no memory for the timer of ", f);
  }
}

timer_node* scheduler::push_timer(processor& p, deadline when, void (*fire)(void*, std::uint64_t) noexcept, void* arg,
                                  std::uint64_t stamp) {
  timer_node* n = make_timer(&p, when, fire, arg, stamp);
  try {
    p.timers.push(*n);
  } catch (...) {
    free_timer(n);
    throw;
  }
  timer_is_visible();
  return n;
}

void scheduler::move_timer(processor& p, timer_node& n, deadline when) noexcept {
  p.timers.move(n, when);
  timer_is_visible();
}

void scheduler::timer_is_visible() noexcept {
  light_fence();                          // pairs with the heavy one in sleep_until_assigned(): the timer, then idle_
  if (idle_.word() != 0) wake_monitor();  // in case this processor computes beyond the deadline
}

// Bracket open. The timer may be at home with another processor, and may be about to fire.
void scheduler::disarm(fiber& f) noexcept {
  timer_node* n = std::exchange(f.timer, nullptr);
  processor& here = *f.on->held;
  if (n->home == &here && n->word.load(std::memory_order_acquire) == timer_node::state::armed) {
    here.timers.erase(*n);
    return;
  }
  timer_node::state seen = timer_node::state::armed;
  processor* home = n->home;
  // acq_rel: pairs with timer_heap::pop_due(); the loser frees the node.
  if (n->word.compare_exchange_strong(seen, timer_node::state::dead, std::memory_order_acq_rel))
    home->timers.note_dead();
  else
    free_timer(n);
}

}  // namespace coir::detail
