// Searching for work and stealing it: the first half of the idle protocol, whose rules are at the top of idle.cpp.
#include <algorithm>
#include <utility>

#include <coir/detail/abi.hpp>

#include "sched/events.hpp"
#include "sched/switch.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::int64_t search_for = 50'000;        // ns; about what being woken costs
constexpr std::int64_t steal_fresh_after = 5'000;  // a few fresh fibers: when the oldest has waited so long
constexpr std::uint32_t steal_fresh_at = 4;        // so many at once are worth stealing right away
constexpr std::int64_t steal_ready_after = 20'000;
constexpr std::int64_t steal_next_after = 30'000;

inline void pause_briefly() noexcept {
  for (int i = 0; i < 20; ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
}

}  // namespace

runnable* scheduler::search(worker& w) noexcept {
  const auto count = static_cast<std::uint32_t>(processors_.size());
  if (count == 1) return nullptr;
  if (!w.searching) {
    const std::uint32_t busy = count - std::min(count, idle_.count());
    if (idle_.searching() * 2 >= busy) return nullptr;
    idle_.add_searcher();
    w.searching = true;
  }
  costs_.searches.add();
  std::fill(w.samples.begin(), w.samples.end(), victim_sample{});
  const std::int64_t begin = clock_.now();
  std::int64_t time = begin;
  while (time - begin < search_for && !stopping_.load(std::memory_order_relaxed)) {
    const auto first = static_cast<std::uint32_t>(random_bits() % count);
    for (std::uint32_t i = 0; i < count; ++i) {
      processor& victim = *processors_[(first + i) % count];
      if (&victim == w.held) continue;
      if (victim.timers.earliest() <= time - busy_timer_slack) fire_all(victim, time);
      if (runnable* r = steal_from(w, victim)) return r;
    }
    processor& p = w.enter_native();
    if (runnable* r = pick(w, p)) {
      stop_searching(w);
      return r;
    }
    w.leave();
    const std::uint32_t busy = count - std::min(count, idle_.count());
    if (busy <= 1 || busy > idle_.cpus()) break;  // there is no victim; or the victims should have this CPU
    pause_briefly();
    time = clock_.now();
  }
  return nullptr;
}

runnable* scheduler::steal_from(worker& w, processor& victim) noexcept {
  const std::int64_t time = clock_.now();
  victim_sample& seen = w.samples[victim.index()];
  const auto still = [time](auto& last, auto current, std::int64_t& since, std::int64_t long_enough) {
    if (since == 0 || last != current) {
      last = current;
      since = time;
      return false;
    }
    return time - since >= long_enough;
  };
  const std::uint32_t fresh = victim.fresh.size();
  if (victim.firing.load(std::memory_order_relaxed)) seen.ready_since = 0;  // it is going to be served
  const auto offered = [&w](const processor::ring& ring, const std::atomic<std::uint32_t>& head) {
    return w.woken && ring.head() == head.load(std::memory_order_relaxed);
  };
  const bool fresh_waits = (still(seen.fresh_head, victim.fresh.head(), seen.fresh_since, steal_fresh_after) ||
                            offered(victim.fresh, victim.wakes.offered_fresh)) &&
                           fresh != 0;
  const bool ready_waits = (still(seen.ready_head, victim.ready.head(), seen.ready_since, steal_ready_after) ||
                            offered(victim.ready, victim.wakes.offered_ready)) &&
                           !victim.ready.empty();
  const bool yielded_waits = (still(seen.yielded_head, victim.yielded.head(), seen.yielded_since, steal_ready_after) ||
                              offered(victim.yielded, victim.wakes.offered_yielded)) &&
                             !victim.yielded.empty();
  const next_state next = victim.next_is.load(std::memory_order_relaxed);
  const bool next_waits =
      (still(seen.tick, victim.tick.load(std::memory_order_relaxed), seen.tick_since, steal_next_after) &&
       next != next_state::none) ||
      next == next_state::offered;
  const bool overdue = victim.overdue.load(std::memory_order_relaxed);
  const bool take_fresh = fresh >= steal_fresh_at || fresh_waits || overdue;
  if (!take_fresh && !ready_waits && !yielded_waits && !next_waits) return nullptr;

  if (!victim.try_lock()) return nullptr;
  runnable* loot[processor::ring::capacity / 2 + 1];
  std::uint32_t n = 0;
  victim.overdue.store(false, std::memory_order_relaxed);
  if (ready_waits || overdue) n = victim.ready.take_half(loot);
  if (n == 0 && take_fresh) n = victim.fresh.take_half(loot);
  if (n == 0 && (yielded_waits || overdue)) n = victim.yielded.take_half(loot);
  if (n == 0 && (next_waits || overdue) && victim.next != nullptr) {
    loot[n++] = victim.take_next();
    // Its waker goes on computing, and will do so again. (While its processor is locked it is outside the bracket.)
    if (const worker* owner = victim.owner(); owner != nullptr && owner->current != nullptr)
      owner->current->habit.store(waker_habit::computes, std::memory_order_relaxed);
  } else if (n != 0 && next == next_state::offered && victim.next != nullptr)
    victim.next_is.store(next_state::waits, std::memory_order_relaxed);  // the wake for it was not useless
  if (victim.next == nullptr) victim.next_is.store(next_state::none, std::memory_order_relaxed);
  const std::uint32_t left = victim.ready.size() + victim.fresh.size() + victim.yielded.size();
  victim.unlock();
  if (n == 0) return nullptr;
  victim.wakes.forget_useless();
  runnable* r = keep_loot(w, loot, n);
  stop_searching(w, n - 1 + left);
  return r;
}

// The oldest runs at once; returns it with the bracket open.
runnable* scheduler::keep_loot(worker& w, runnable** loot, std::uint32_t n) noexcept {
  processor& p = w.enter_native();
  p.steals.add();
  p.stolen.add(n);
  if (w.watched()) [[unlikely]]
    trace_steal(w, p, n);
  for (std::uint32_t i = 1; i < n; ++i) {
    if (loot[i]->has_not_started())
      queues_.push_fresh(p, loot[i]);
    else
      queues_.push_ready(p, loot[i]);
  }
  return loot[0];
}

// A push on p (null: elsewhere) has woken a worker for nothing.
void scheduler::note_useless_wake(processor* p) noexcept {
  costs_.useless_wakes.add();
  if (p != nullptr) p->wakes.note_useless(coarse_time());
}

// Called inside the bracket, which is closed meanwhile. The worker has found work, and `more` that it will not run at
// once. A worker that finds more than it needs wakes the next ones, up to two. So n idle processors are busy after log
// n wake-ups.
void scheduler::stop_searching(worker& w, std::uint32_t more) noexcept {
  w.leave();
  w.searching = false;
  w.woken = false;
  const bool last = idle_.remove_searcher();
  const std::uint32_t idle = idle_.word();
  if ((idle & idle_set::monitor_sleeps) != 0) wake_monitor();  // this worker's waker has left that to it
  if (idle_.may_wake(idle & idle_set::count_mask)) {
    if (more != 0) {
      w.held->note_offer();
      const auto busy = static_cast<std::uint32_t>(processors_.size()) - idle_.count();
      if (wake_one(w.held, busy) && more >= 3 && idle_.may_wake(idle_.count())) wake_one(w.held, busy);
    } else if (last) {
      // Pairs with the fence in inject(): the push of a thread that saw a searcher, and so woke nobody, is seen here.
      // (A push behind a light fence may be missed; its pusher has told the monitor.)
      std::atomic_thread_fence(std::memory_order_seq_cst);
      if (work_visible()) wake_one(nullptr);
    }
  }
  w.enter_native();
}

/// Work that a searcher could take. The ready queues of busy processors do not count: their workers are awake, and it
/// is the monitor that decides when such a queue waits too long.
bool scheduler::work_visible() noexcept {
  if (!queues_.empty()) return true;
  for (const auto& p : processors_)
    if (!p->fresh.empty()) return true;
  return false;
}

}  // namespace coir::detail
