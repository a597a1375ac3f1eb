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
// locals must not go first. When it is found, all who sleep are marked: their next attempt to block throws. Only the
// deepest (runnable::depth) are woken and told by their stop tokens. The next are when those have ended, or wait in
// their turn: when the runtime is quiescent again, without timers. That need not be certain once more, only soon: a
// fiber that unwinds may have started a thread or a timer, or wait for something that one above it holds. So after
// longest_step all the others are woken at once, in whatever order. As long as somebody is still to be woken, one at
// least stays in wait_until(): it is the threads there that take the steps.
//
//   unwinding_     who                                     goes on to
//   null           unwind_deadlock(), if it is certain:    the remaining ones, or null if all were of one depth
//                  notes, marks, wakes the deepest
//   remaining      continue_unwinding(), if quiescent:     the remaining ones, or null
//                  wakes the deepest of them; or, late,
//                  all of them
//
// A step is taken with the registry locked, as the decision is: so while one runtime looks at its sleepers, none of
// another's is about to wake them.
//
// Who remains is known by the word of the wait that it was in: who has been woken otherwise meanwhile, and may have
// ended, is not hit. Nothing of that needs memory after the first step. Stop callbacks are the user's: they run in a
// fiber, made with the rest, before whose end the runtime is not quiescent.
#include <algorithm>
#include <bitset>
#include <memory>
#include <new>
#include <optional>
#include <sstream>
#include <stop_token>
#include <utility>
#include <vector>

#include <coir/start_record.hpp>
#include <coir/this_fiber.hpp>

#include "clock.hpp"
#include "futex.hpp"
#include "outside_timers.hpp"
#include "report.hpp"
#include "sanitizer.hpp"
#include "scheduler.hpp"
#include "threads.hpp"
#include "waiter_access.hpp"

namespace coir::detail {

namespace {

constexpr std::int64_t first_recheck = 10'000'000;
constexpr std::int64_t last_recheck = 1'000'000'000;
// Of an unwinding: a step, beside what those take that it wakes.
constexpr std::int64_t longest_step = 2'000'000'000;
constexpr std::int64_t longest_of_one = 200'000;

}  // namespace

/// Who is still to be woken. The deepest are last.
struct scheduler::unwinding {
  /// A fiber that requests stops; nothing that the callbacks call throws `cancelled`.
  struct stop_teller final : start_record {
    stop_teller(std::uint8_t of_depth, std::vector<std::stop_source> all)
        : start_record(&stop_teller::enter, source_location::current()),
          told_depth(of_depth),
          sources(std::move(all)) {}

    static void enter(start_record* r) {
      const std::unique_ptr<stop_teller, destroyer> self(static_cast<stop_teller*>(r));
      const uncancellable guard;
      for (std::stop_source& s : self->sources) signal_stop(std::move(s));
    }

    struct destroyer {
      void operator()(stop_teller* t) const noexcept { destroy_record(t); }
    };

    const std::uint8_t told_depth;
    std::vector<std::stop_source> sources;
  };

  struct sleeping_fiber {
    fiber* who;
    std::uint64_t word;
    std::uint8_t depth;
    bool can_be_woken;  // else it is marked only
  };

  using teller_ptr = std::unique_ptr<stop_teller, stop_teller::destroyer>;

  std::vector<sleeping_fiber> fibers;
  std::vector<teller_ptr> tellers;
  std::bitset<runnable::deepest + 1U> depths;  // at which there is somebody to be woken or told
  deadline late = no_deadline;
};

void scheduler::end_unwinding::operator()(unwinding* u) const noexcept { delete u; }

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
  struct registered {
    scheduler& s;
    bool left = false;
    explicit registered(scheduler& home) : s(home) { s.waiters_.fetch_add(1, std::memory_order_seq_cst); }
    ~registered() {
      // If this thread was the one that watched, another has to take over.
      if (!left && s.waiters_.fetch_sub(1, std::memory_order_seq_cst) > 1) s.notify_waiters();
    }
    /// False: there is no other.
    bool leave_to_others() noexcept {
      std::uint32_t n = s.waiters_.load(std::memory_order_relaxed);
      while (n > 1 && !left) left = s.waiters_.compare_exchange_weak(n, n - 1, std::memory_order_seq_cst);
      if (left) s.notify_waiters();
      return left;
    }
  } waiting{*this};
  const runtime_threads::blocked_in_run counted(done);  // last: who is counted is known to be here, see unwinds()

  std::int64_t recheck = first_recheck;
  for (;;) {
    const std::uint32_t event = event_.load(std::memory_order_acquire);
    const bool finished = done();  // first: if an unwinding has made it true, that is seen next
    if (const deadline next = continue_unwinding(); next != no_deadline) {
      if (finished && waiting.leave_to_others()) return;
      futex_wait(event_, event, next);
      continue;
    }
    if (finished) return;
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

/// Of a runtime that is stuck: who sleeps, to be unwound. All that needs memory is made here, before anybody is marked
/// or woken.
scheduler::unwinding_ptr scheduler::note_sleepers() {
  unwinding_ptr noted(new unwinding);
  std::vector<std::pair<std::uint8_t, std::stop_source>> sources;
  const auto note = [&](std::uint8_t depth, bool can_be_woken, std::optional<std::stop_source> source) {
    if (can_be_woken) noted->depths.set(depth);
    if (source && !source->stop_requested()) sources.emplace_back(depth, std::move(*source));
  };
  for (fiber* f : pool_.fibers()) {
    if (f->state.load(std::memory_order_relaxed) == run_state::free ||
        waiter_access::state_of(f->wait) != waiter::waiting)
      continue;
    const bool can_be_woken = !waiter_access::is_uncancellable(f->wait);
    noted->fibers.push_back({f, f->wait.word(), f->depth, can_be_woken});
    note(f->depth, can_be_woken, f->stop.copy());
  }
  asyncs_.for_each([&](const stackless& s) {
    if (s.asleep()) note(s.depth(), !waiter_access::is_uncancellable(s), s.stop_source());
  });
  std::sort(noted->fibers.begin(), noted->fibers.end(), [](auto& l, auto& r) { return l.depth < r.depth; });
  std::sort(sources.begin(), sources.end(), [](auto& l, auto& r) { return l.first < r.first; });
  for (auto first = sources.begin(); first != sources.end();) {
    const std::uint8_t depth = first->first;
    std::vector<std::stop_source> told;
    for (; first != sources.end() && first->first == depth; ++first) told.push_back(std::move(first->second));
    noted->tellers.push_back(unwinding::teller_ptr(make_record<unwinding::stop_teller>(depth, std::move(told))));
    noted->depths.set(depth);
  }
  return noted;
}

/// With the registry locked, when the runtime is stuck: whether it is about to unwind, since there is somebody to be
/// woken and a thread to see to it.
bool scheduler::unwinds() { return waiters_.load(std::memory_order_relaxed) != 0 && note_sleepers()->depths.any(); }

/// If there is a deadlock for certain: reports it, and begins to unwind it. False if somebody may still act.
bool scheduler::unwind_deadlock() {
  bool certain = false;
  runtime_registry::if_all_quiescent([&](const std::vector<scheduler*>& runtimes) {
    certain = unwinding_ != nullptr;  // another thread has been faster
    if (certain || !stuck()) return;
    // The next step of another runtime may wake somebody here.
    if (std::any_of(runtimes.begin(), runtimes.end(), [](scheduler* s) { return s->unwinding_ != nullptr; })) return;
    unwinding_ptr noted = note_sleepers();
    if (noted->depths.any()) {
      auto report = std::make_shared<const std::string>("all fibers are asleep - deadlock!" + list_blocked());
      certain = true;
      begin_unwinding(std::move(noted), std::move(report));
      return;
    }
    // All block where they must not be disturbed. Nothing can ever end them, unless it is somebody in another runtime.
    if (std::none_of(runtimes.begin(), runtimes.end(), [](scheduler* s) { return s->unwinds(); }))
      fatal("all fibers are asleep - deadlock, and these cannot be unwound (uncancellable):", list_blocked());
  });
  if (certain) notify_waiters();  // who watches is to help
  return certain;
}

/// With the registry locked.
void scheduler::begin_unwinding(unwinding_ptr noted, std::shared_ptr<const std::string> report) noexcept {
  const bool known =
      std::any_of(noted->fibers.begin(), noted->fibers.end(), [](auto& s) { return s.who->in_deadlock; });
  {
    const std::lock_guard reporting(deadlock_lock_);
    // One after which some have blocked again is no new one.
    if (!known || deadlock_report_ == nullptr) deadlock_report_ = std::move(report);
  }
  for (const auto& s : noted->fibers) {
    s.who->in_deadlock = true;
    waiter_access::set_for_good(s.who->wait);
  }
  asyncs_.for_each([](stackless& s) { s.mark_for_deadlock(); });
  unwinding_ = std::move(noted);
  is_unwinding_.store(true, std::memory_order_relaxed);  // before anybody is woken, and by that can end
  unwind_step(false);
}

/// Takes the next step of an unwinding, if it is time for that. no_deadline: there is none; else when to come again if
/// nothing happens before.
deadline scheduler::continue_unwinding() noexcept {
  deadline next = no_deadline;
  if (!is_unwinding_.load(std::memory_order_acquire)) return next;  // pairs with unwind_step(), as its notification
  runtime_registry::visit(serial_, [&](scheduler&) {
    while (unwinding_ != nullptr) {
      idle_lock_.lock();
      const bool still = quiescent_locked() && (live_fibers() == 0 || !timers_pending_locked());
      idle_lock_.unlock();
      const std::int64_t now = clock_.now();
      const bool late = now >= unwinding_->late;
      const bool outside = still && outside_timers::pending();  // perhaps somebody's here
      if ((!still || outside) && !late) {
        // Nobody tells when an outside timer is disarmed.
        next = outside ? std::min(unwinding_->late, now + first_recheck) : unwinding_->late;
        break;
      }
      unwind_step(late);
    }
  });
  return next;
}

/// With the registry locked: wakes the deepest of those who remain, or all.
void scheduler::unwind_step(bool all) noexcept {
  unwinding& u = *unwinding_;
  tsan_acquire(this);  // what those did who have ended, deeper: for those who are woken
  std::size_t least = 0;
  if (!all) {
    least = u.depths.size() - 1;
    while (!u.depths.test(least)) --least;
  }
  std::int64_t woken = 0;
  for (; !u.fibers.empty() && u.fibers.back().depth >= least; u.fibers.pop_back()) {
    const auto& s = u.fibers.back();
    if (!s.can_be_woken || !s.who->wait.claim_from_outside(s.word, waiter::cancelled)) continue;
    unpark(s.who->wait);
    ++woken;
  }
  asyncs_.for_each([&](stackless& s) { woken += s.unwind_marked(static_cast<std::uint8_t>(least)) ? 1 : 0; });
  // After the claims: as by any cancellation, a wait ends by that, and not by what its token tells.
  for (; !u.tellers.empty() && u.tellers.back()->told_depth >= least; u.tellers.pop_back())
    start(u.tellers.back().release());
  for (std::size_t depth = least; depth < u.depths.size(); ++depth) u.depths.reset(depth);
  if (u.depths.none())
    unwinding_ = nullptr;
  else
    u.late = clock_.now() + longest_step + woken * longest_of_one;
  is_unwinding_.store(unwinding_ != nullptr, std::memory_order_release);
}

std::shared_ptr<const std::string> scheduler::take_deadlock() noexcept {
  const std::lock_guard locked(deadlock_lock_);
  return std::exchange(deadlock_report_, nullptr);
}

std::shared_ptr<const std::string> scheduler::deadlock_report() noexcept {
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
