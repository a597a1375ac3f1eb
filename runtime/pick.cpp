// Picking. A processor looks, in this order, at
//   next    the fiber that the running one has just made ready: it finds its data warm, and a pair that talks stays on
//           one processor. It inherits the time slice: after next_budget picks in a row a ready fiber goes to the
//           queue.
//   ready   oldest first
//   fresh   newest first: depth first, so that a tree of fibers needs stacks for a path and not for a level
//   the injection queue (from foreign threads), then what has spilled over from full rings, ready before fresh.
// A fiber that yields lets the fresh ones go before the ready queue, which it is about to join itself.
// So that nothing starves, every 64th pick takes an injected one first, every 64th the oldest ready one (a fiber that
// yields would let new ones go first for ever) and every 64th the newest fresh one, every 128th exchanges a batch of
// spilled ready ones, and every millisecond the oldest fresh one of all has its turn. Fresh ones that are held up
// nevertheless get turns of their own: watch_fresh(). Timers are looked at every 16th pick if there are any, and
// whenever the queues run dry.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "switch.hpp"

namespace coir::detail {

// ---- queues --------------------------------------------------------------------------------------------------------

namespace {

constexpr std::size_t injected_batch = 64;

static_assert(spill_queue::batch_size == processor::ring::capacity / 2);

// Without memory for a batch: the injection queue needs none.
void inject_all(injection_queue& q, runnable** items, std::uint32_t n) noexcept {
  if (n == 0) return;  // cannot be: the ring was full
  for (std::uint32_t i = 0; i < n; ++i) items[i]->next = i + 1 < n ? items[i + 1] : nullptr;
  q.push_chain(items[0], items[n - 1], n);
}

/// take(items) moves half a ring to `items`, and returns how many.
template <class Take>
void spill(spill_queue& to, injection_queue& without_memory, Take take) noexcept {
  spill_queue::batch* b = to.make();
  if (b == nullptr) {
    runnable* items[spill_queue::batch_size];
    inject_all(without_memory, items, take(items));
    return;
  }
  b->first = 0;
  b->end = take(b->items);
  to.push(b);
}

}  // namespace

// The newest: those at the front have waited longest, and are to run next.
void scheduler::spill_ready(processor& p) noexcept {
  spill(spilled_ready_, injected_, [&](runnable** items) { return p.ready.take_newest_half(items); });
}

// The oldest: the owner goes on with the newest.
void scheduler::spill_fresh(processor& p) noexcept {
  spill(spilled_fresh_, injected_, [&](runnable** items) { return p.fresh.take_half(items); });
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
  if (w.current == nullptr) return false;  // on the native stack some have just been fired
  const deadline earliest = std::min(p.timers.earliest(), idle_deadline_.load(std::memory_order_relaxed));
  return earliest != no_deadline && earliest <= clock_.now();
}

std::size_t scheduler::fresh_count(const processor& p) const noexcept { return p.fresh.size() + spilled_fresh_.size(); }

// ---- fairness ------------------------------------------------------------------------------------------------------

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
  if (p.watched_since == 0) {
    p.fewest_fresh = count;
  } else {
    if (time - p.watched_since < held_up_for) return;
    const bool held_up = (p.begun - p.begun_before) * few < tick - p.picks_before;
    if (held_up || count > p.fewest_fresh + many_fresh) {
      p.rare_mask = 0;
      p.watched_since = 0;
      p.turn_began = 0;
      p.ready_turns = 0;
      p.unneeded = 0;
      return;
    }
    p.fewest_fresh = std::min(p.fewest_fresh, count);
  }
  p.watched_since = time;
  p.picks_before = tick;
  p.begun_before = p.begun;
}

// In their turn, and in that of the others after it. What was just made ready waits for the latter.
runnable* scheduler::pick_held_up(processor& p) noexcept {
  if (p.next != nullptr) {
    push_ready(p, std::exchange(p.next, nullptr));
    p.has_next.store(false, std::memory_order_relaxed);
  }
  if (p.turn_began == 0 && p.ready_turns == 0) {
    p.turn_began = clock_.now();
    p.fresh_turns = p.fresh_before = fresh_count(p);
    p.ready_before = p.ready.size();
  } else if (p.ready_turns == 0 && !p.ready.empty() &&
             (p.ready.size() >= p.ready_before + many_ready || clock_.now() - p.turn_began >= fresh_turn)) {
    p.turn_began = 0;
    if (fresh_count(p) > p.fresh_before + processor::ring::capacity) {  // they start ever more of their kind
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
      if (p.rare_mask != 0) p.watched_since = 0;
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

}  // namespace coir::detail
