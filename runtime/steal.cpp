// Searching for work and stealing it: the first half of the idle protocol, whose rules are at the top of idle.cpp.
#include <algorithm>
#include <utility>

#include "switch.hpp"
#include "trace.hpp"

namespace coir::detail {

namespace {

constexpr std::int64_t search_for = 50'000;        // ns; about what being woken costs
constexpr std::int64_t steal_fresh_after = 5'000;  // a few fresh fibers: when the oldest has waited so long
constexpr std::uint32_t steal_fresh_at = 4;        // so many at once are worth stealing right away
constexpr std::int64_t steal_ready_after = 20'000;
constexpr std::int64_t steal_next_after = 30'000;
constexpr std::uint32_t first_gap = 64;
constexpr std::uint32_t largest_gap = 1U << 16;

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
    const std::uint32_t busy = count - std::min(count, idle_count());
    if (searching_.load(std::memory_order_relaxed) * 2 >= busy) return nullptr;
    searching_.fetch_add(1, std::memory_order_seq_cst);
    w.searching = true;
  }
  std::fill(w.samples.begin(), w.samples.end(), victim_sample{});
  const std::int64_t begin = clock_.now();
  std::int64_t time = begin;
  while (time - begin < search_for && !stopping_.load(std::memory_order_relaxed)) {
    const auto first = static_cast<std::uint32_t>(random_bits() % count);
    for (std::uint32_t i = 0; i < count; ++i) {
      processor& victim = *processors_[(first + i) % count];
      if (&victim == w.held) continue;
      if (victim.timers.earliest() <= time - busy_timer_slack) fire_all(victim, time);
      if (runnable* r = steal_from(w, victim)) {
        stop_searching_found(w);
        return r;
      }
    }
    processor& p = w.enter_native();
    if (runnable* r = pick(w, p)) {
      stop_searching_found(w);
      return r;
    }
    w.leave();
    if (idle_count() + 1 >= count) break;  // nobody runs whom one could steal from
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
  const std::uint32_t ready = victim.ready.size();
  if (victim.firing.load(std::memory_order_relaxed)) seen.ready_since = 0;  // it is going to be served
  const bool fresh_waits =
      still(seen.fresh_head, victim.fresh.head(), seen.fresh_since, steal_fresh_after) && fresh != 0;
  const bool ready_waits =
      still(seen.ready_head, victim.ready.head(), seen.ready_since, steal_ready_after) && ready != 0;
  const bool next_waits =
      still(seen.tick, victim.tick.load(std::memory_order_relaxed), seen.tick_since, steal_next_after) &&
      victim.has_next.load(std::memory_order_relaxed);
  const bool overdue = victim.overdue.load(std::memory_order_relaxed);
  const bool take_fresh = fresh >= steal_fresh_at || fresh_waits || overdue;
  if (!take_fresh && !ready_waits && !next_waits) return nullptr;

  if (!victim.try_lock()) return nullptr;
  runnable* loot[processor::ring::capacity / 2 + 1];
  std::uint32_t n = 0;
  victim.overdue.store(false, std::memory_order_relaxed);
  if (ready_waits || overdue) n = victim.ready.take_half(loot);
  if (n == 0 && take_fresh) n = victim.fresh.take_half(loot);
  if (n == 0 && (next_waits || overdue) && victim.next != nullptr) {
    loot[n++] = std::exchange(victim.next, nullptr);
    victim.has_next.store(false, std::memory_order_relaxed);
  }
  victim.unlock();
  if (n == 0) return nullptr;
  victim.wake_gap.store(0, std::memory_order_relaxed);
  return keep_loot(w, loot, n);
}

// The oldest runs at once; returns it with the bracket open.
runnable* scheduler::keep_loot(worker& w, runnable** loot, std::uint32_t n) noexcept {
  processor& p = w.enter_native();
  p.steals.add();
  p.stolen.add(n);
  if (w.watched()) [[unlikely]]
    trace_steal(w, p, n);
  for (std::uint32_t i = 1; i < n; ++i) {
    if (loot[i]->what == runnable::kind::fresh)
      push_fresh(p, loot[i]);
    else
      push_ready(p, loot[i]);
  }
  return loot[0];
}

// A push has woken somebody for nothing.
void scheduler::widen_wake_gaps(const processor* but) noexcept {
  for (const auto& p : processors_)
    if (p->owner() != nullptr && p.get() != but)
      p->wake_gap.store(std::clamp(p->wake_gap.load(std::memory_order_relaxed) * 2, first_gap, largest_gap),
                        std::memory_order_relaxed);
}

// `woken`: by a push, and had not found work yet.
void scheduler::stop_searching(bool found, bool woken) noexcept {
  const bool last = searching_.fetch_sub(1, std::memory_order_seq_cst) == 1;
  if (!found) {
    if (woken) widen_wake_gaps();
    return;
  }
  if (!last || idle_count() == 0) return;
  // Pairs with the fence in inject(): who saw searching_ != 0 and woke nobody has its push seen here. (A push behind a
  // light fence may be missed; its pusher has told the monitor.)
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (work_visible()) wake_one();
}

// In an open bracket, which it leaves open.
void scheduler::stop_searching_found(worker& w) noexcept {
  w.leave();
  w.searching = false;
  stop_searching(true, std::exchange(w.woken, false));
  w.enter_native();
}

/// Work that a searcher could take. The ready queues of busy processors do not count: their workers are awake, and it
/// is the monitor that decides when such a queue waits too long.
bool scheduler::work_visible() noexcept {
  if (!nothing_shared()) return true;
  for (const auto& p : processors_)
    if (!p->fresh.empty()) return true;
  return false;
}

}  // namespace coir::detail
