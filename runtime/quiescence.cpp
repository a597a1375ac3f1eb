// What is decided when nothing runs: drained, or deadlocked.
//
// A runtime is quiescent when all its processors are idle, no worker runs a fiber without one, and the injection queue
// is empty; then its counts are exact.
// It is drained if no fiber is left. It is stuck if fibers are left and no timer is pending. Stuck is deadlocked only
// if nobody else could wake a fiber: every runtime of the process is quiescent without timers, and every thread is a
// runtime's own or blocked in run() or wait() for something that has not come (threads.hpp).
//
// All that is decided by the plain threads that wait (wait_until), not by workers: if no thread waits, the process has
// a thread that is doing something else, and there is no deadlock. The last worker to go idle wakes them. While stuck
// is not certain, a waiting thread looks again after a while, since a thread that ends tells nobody.
//
// A deadlock is unwound from the leaves: fibers hold references into the frames of those that spawned them, whose
// locals must not go first. All who sleep are cancelled for good, and their stop tokens tell so; but only the deepest
// of them (runnable::depth) are woken. When the runtime is stuck again, since those above still sleep, the next are.
// Each time the depth is less, or they were spawned since; so that ends. Who is woken by one that unwinds goes on until
// it is about to block.
#include <algorithm>
#include <new>
#include <sstream>

#include "clock.hpp"
#include "futex.hpp"
#include "report.hpp"
#include "sanitizer.hpp"
#include "scheduler.hpp"
#include "threads.hpp"
#include "waiter_access.hpp"

namespace coir::detail {

namespace {

constexpr std::int64_t first_recheck = 10'000'000;
constexpr std::int64_t last_recheck = 1'000'000'000;

}  // namespace

// Under idle_lock_, when quiescent.
std::int64_t scheduler::live_fibers() noexcept {
  std::uint64_t started = started_outside_.load(std::memory_order_relaxed);
  std::uint64_t ended = ended_outside_.load(std::memory_order_relaxed);
  for (const auto& p : processors_) {
    started += p->started.value();
    ended += p->ended.value();
  }
  return static_cast<std::int64_t>(started - ended);
}

// Under idle_lock_.
bool scheduler::quiescent_locked() noexcept {
  return idle_count() == processors_.size() && lost_ == 0 && nothing_shared();
}

bool scheduler::timers_pending_locked() noexcept {
  return std::any_of(processors_.begin(), processors_.end(), [](const auto& p) { return p->timers.pending() != 0; });
}

bool scheduler::drained() noexcept {
  idle_lock_.lock();
  const bool yes = quiescent_locked() && live_fibers() == 0;
  idle_lock_.unlock();
  return yes;
}

bool scheduler::stuck() noexcept {
  idle_lock_.lock();
  const bool yes = quiescent_locked() && live_fibers() != 0 && !timers_pending_locked();
  idle_lock_.unlock();
  return yes;
}

std::optional<std::uint64_t> scheduler::quiescent_epoch() noexcept {
  idle_lock_.lock();
  std::optional<std::uint64_t> epoch;
  if (quiescent_locked() && !timers_pending_locked()) epoch = busy_epoch_.value();
  idle_lock_.unlock();
  return epoch;
}

// By the last worker to go idle, and by who cancels the last timer from outside.
void scheduler::note_quiescent() noexcept {
  if (waiters_.load(std::memory_order_seq_cst) == 0) return;
  idle_lock_.lock();
  const bool quiescent = quiescent_locked();
  const bool none_left = quiescent && live_fibers() == 0;
  const bool looks_stuck = quiescent && !none_left && !timers_pending_locked();
  idle_lock_.unlock();
  if (none_left || (looks_stuck && watching_.load(std::memory_order_seq_cst) == 0)) notify_waiters();
}

void scheduler::notify_waiters() noexcept {
  event_.fetch_add(1, std::memory_order_acq_rel);
  futex_wake(event_, 1 << 30);
}

void scheduler::wait_until(const std::function<bool()>& done) {
  const runtime_threads::blocked_in_run counted(done);
  struct registered {
    scheduler& s;
    explicit registered(scheduler& home) : s(home) { s.waiters_.fetch_add(1, std::memory_order_seq_cst); }
    ~registered() {
      // If this thread was the one that watched, another has to take over.
      if (s.waiters_.fetch_sub(1, std::memory_order_seq_cst) > 1) s.notify_waiters();
    }
  } waiting{*this};

  std::int64_t recheck = first_recheck;
  for (;;) {
    const std::uint32_t event = event_.load(std::memory_order_acquire);
    if (done()) return;
    if (!stuck()) {
      futex_wait(event_, event);
      continue;
    }
    try {
      if (unwind_deadlock()) {
        recheck = first_recheck;
        continue;
      }
    } catch (const std::bad_alloc&) {  // for the report; nobody has been woken, and the next look tries again
    }
    // Somebody outside may still act. If so the wait goes on until the workers have slept, woken and slept again.
    watching_.fetch_add(1, std::memory_order_seq_cst);
    futex_wait(event_, event, clock_.now() + recheck);
    watching_.fetch_sub(1, std::memory_order_seq_cst);
    recheck = std::min(recheck * 2, last_recheck);
  }
}

void scheduler::wait_drained() {
  wait_until([this] { return drained(); });
}

std::string scheduler::list_blocked() {
  std::ostringstream out;
  for (fiber* f : pool_.fibers()) {
    if (f->state.load(std::memory_order_relaxed) == run_state::free ||
        waiter_access::state_of(f->wait) != waiter::waiting)
      continue;
    tsan_acquire(f);
    out << "\n  " << describe(*f) << ": " << f->why.what;
    if (f->why.on != nullptr) out << ' ' << f->why.on;
  }
  asyncs_.for_each([&](const stackless& s) {
    if (!s.asleep()) return;
    tsan_acquire(const_cast<stackless*>(&s));
    out << "\n  " << s.describe();
  });
  return out.str();
}

/// If the deadlock is certain: reports it, cancels the blocked fibers, and wakes the deepest of them. False if somebody
/// may still act.
bool scheduler::unwind_deadlock() {
  struct sleeper {
    fiber* who;
    std::uint64_t word;
    std::uint8_t depth;
    bool can_be_woken;
  };
  std::vector<std::stop_source> sources;
  bool certain = false;
  runtime_registry::if_all_quiescent([&] {
    if (!stuck()) return;
    // First who is to be cancelled: once the first unwinds it may start new ones, on stacks of this list.
    std::vector<sleeper> asleep;
    for (fiber* f : pool_.fibers()) {
      if (f->state.load(std::memory_order_relaxed) == run_state::free ||
          waiter_access::state_of(f->wait) != waiter::waiting)
        continue;
      asleep.push_back({f, f->wait.word(), f->depth, !waiter_access::is_uncancellable(f->wait)});
      if (auto source = f->stop.copy()) sources.push_back(std::move(*source));
    }
    std::optional<std::uint8_t> deepest;
    const auto look_at = [&deepest](std::uint8_t depth) { deepest = std::max(deepest.value_or(0), depth); };
    for (const sleeper& s : asleep)
      if (s.can_be_woken) look_at(s.depth);
    asyncs_.for_each([&](const stackless& s) {
      if (!s.asleep()) return;
      if (const auto depth = s.depth_to_unwind()) look_at(*depth);
      if (auto source = s.stop_source()) sources.push_back(std::move(*source));
    });
    report_deadlock(deepest.has_value());
    certain = true;

    // From here on nothing may fail.
    for (const sleeper& s : asleep) {
      s.who->in_deadlock = true;
      waiter_access::set_for_good(s.who->wait);  // seen when it is next about to block
    }
    asyncs_.for_each([](stackless& s) { s.mark_for_deadlock(); });
    for (const sleeper& s : asleep) {
      if (!s.can_be_woken || s.depth < *deepest) continue;
      if (s.who->wait.claim_from_outside(s.word, waiter::cancelled)) unpark(s.who->wait);  // else one that unwinds did
    }
    asyncs_.for_each([&](stackless& s) { s.unwind_marked(*deepest); });
  });
  for (std::stop_source& s : sources) signal_stop(std::move(s));
  return certain;
}

/// If all block where they must not be disturbed, nothing can ever end them.
void scheduler::report_deadlock(bool can_be_unwound) {
  if (!can_be_unwound)
    fatal("all fibers are asleep - deadlock, and these cannot be unwound (uncancellable):", list_blocked());
  const std::lock_guard locked(deadlock_lock_);
  // If there is one already this is its next step.
  if (deadlock_report_.empty()) deadlock_report_ = "all fibers are asleep - deadlock!" + list_blocked();
}

std::string scheduler::take_deadlock() {
  const std::lock_guard locked(deadlock_lock_);
  return std::exchange(deadlock_report_, {});
}

std::string scheduler::deadlock_report() {
  const std::lock_guard locked(deadlock_lock_);
  return deadlock_report_;
}

void scheduler::cancel_all() noexcept try {
  cancel_all_.store(true, std::memory_order_relaxed);
  heavy_fence();  // pairs with the light one in run_fiber(): the flag, then the states
  for (fiber* f : pool_.fibers()) {
    if (f->state.load(std::memory_order_relaxed) == run_state::free) continue;
    if (auto source = cancel_fiber(*f)) signal_stop(std::move(*source));
  }
  std::vector<std::stop_source> sources;
  asyncs_.for_each([&](stackless& s) {
    if (auto source = s.cancel()) sources.push_back(std::move(*source));
  });
  for (std::stop_source& s : sources) signal_stop(std::move(s));
} catch (const std::bad_alloc&) {
  fatal("no memory for the list of the fibers of a runtime that are to be cancelled");
}

}  // namespace coir::detail
