// Picking. A processor looks, in this order, at
//   next      the fiber that the running one has just made ready. Its data is warm, and a pair that talks stays on one
//             processor.
//   ready     woken fibers, the oldest first
//   fresh     fibers that have not started, the newest first: depth first, so that a tree of fibers needs stacks for a
//             path and not for a level
//   yielded   fibers that have yielded, the oldest first. A yield lets everybody else go before, so a fiber that wakes
//             from a sleep does not wait behind those that compute and yield.
//   then the injection queue (from foreign threads) and what has spilled over from full rings, ready before fresh.
//
// Bound in time. This order alone would let some fibers wait for ever. So the monitor looks at every busy processor,
// every 0.4 ms while anything stands still (monitor.hpp). It asks for attention to the work that has waited there since
// the look before. The processor serves that work at its next pick, however long the picks take:
//
//   attention     asked for if                                  served by
//   due_timers    a timer is due                                firing it before the pick
//   shared        something lies in a shared queue              an injected fiber, and a batch of spilled work
//   ready         the oldest ready one has not moved            that one; `next` goes to the end of the ready queue:
//                                                               its chain has used up its time slice
//   yielded       the oldest one has not moved                  a turn: those that have yielded run, once each
//   fresh         the oldest one has not moved, or some have    that one
//                 spilled over
//   starved       no fresh one has begun; or ever more of       a turn: fresh ones run, newest first, until 16 more are
//                 them have spilled over                        ready than when it began; then those that are ready run
//                                                               once each; and so on
//   events        nobody has asked the poller for long        asking it before the pick
//   turn          (the processor sets it: a turn is under way)  the monitor ends it at its next look
//
// The kinds are served in rounds, one fiber of each kind, so that no kind delays another when slices are longer than a
// look. During a turn, a fiber that is made ready waits in the ready queue, not in `next`. The limit of 16 lets parents
// whose children have ended continue, so that trees do not get broad.
//
// Where picks are short, 400 us are thousands of them. So every 64th pick also looks at timers, if there are any, and
// at the shared queues.
//
// Rejected: bounds that count picks. They are either checked so often that they cost, or the bound is as long as the
// slices are: with 5 ms to a slice, every 16th pick was 80 ms.
// Rejected: reading a clock at each pick, which costs as much as the pick.
#include <algorithm>
#include <utility>

#include <coir/detail/abi.hpp>

#include "sched/switch.hpp"

namespace coir::inline COIR_ABI::detail {

// ---- out of turn ---------------------------------------------------------------------------------------------------

namespace {

constexpr std::uint32_t many_ready = 16;
constexpr std::uint32_t unneeded_picks = 16;

/// Whether that was asked for; it is no longer.
bool take_up(processor& p, std::uint8_t what) noexcept {
  if ((p.attention.load(std::memory_order_relaxed) & what) == 0) return false;
  p.attention.fetch_and(static_cast<std::uint8_t>(~what), std::memory_order_relaxed);
  return true;
}

/// The same in rounds: a kind that was served comes again only after all other requested kinds. Otherwise it might be
/// requested again before they are served.
bool take_up_in_round(processor& p, std::uint8_t what) noexcept {
  if ((p.round & what) == 0 || !take_up(p, what)) return false;
  p.round &= static_cast<std::uint8_t>(~what);
  return true;
}

/// The chain that `next` belongs to has used up its time slice.
void put_next_behind(shared_queues& queues, processor& p) noexcept {
  if (runnable* r = p.take_next()) queues.push_ready(p, r);
}

runnable* pick_in_turn(shared_queues& queues, processor& p) noexcept {
  put_next_behind(queues, p);
  if (p.yielded_turns != 0) {
    --p.yielded_turns;
    if (runnable* r = p.yielded.pop_front()) return r;
    p.yielded_turns = 0;
  }
  if (p.fresh_turn) {
    if (p.ready_turns == 0 && p.ready.size() >= p.ready_limit) p.ready_turns = p.ready.size();
    if (p.ready_turns != 0) {
      --p.ready_turns;
      if (runnable* r = p.ready.pop_front()) return r;
      p.ready_turns = 0;
    }
    p.unneeded = p.ready.empty() ? p.unneeded + 1 : 0;  // picks in a row that found nobody else
    if (p.unneeded < unneeded_picks) {
      if (runnable* r = p.fresh.pop_back()) return r;
      if (runnable* r = queues.pick_spilled_fresh(p)) return r;
    }
    p.fresh_turn = false;
  }
  take_up(p, attention::turn);
  return nullptr;
}

runnable* begin_turn(shared_queues& queues, processor& p) noexcept {
  p.attention.fetch_or(attention::turn, std::memory_order_relaxed);
  return pick_in_turn(queues, p);
}

}  // namespace

// If timers, or the poller, come first, `fire` is set and null is returned. They are served on the native stack, since
// a fiber that is about to park cannot fire its own timer. The native stack's pick then serves the rest.
[[gnu::noinline]] runnable* scheduler::pick_out_of_turn(worker& w, processor& p, std::uint64_t tick,
                                                        bool& fire) noexcept {
  const bool counted = tick % counted_pick == 0;
  if (take_up(p, attention::events) ||
      (p.more_events && (room_for_events(p) >= poller::batch::capacity / 2 || tick % (2 * counted_pick) == 0)))
    p.asks_poller = true;  // on the native stack: for its next round
  if ((p.asks_poller && w.current != nullptr) || ((take_up(p, attention::due_timers) || counted) && timers_due(w, p))) {
    p.fruitless.add();
    fire = true;
    return nullptr;
  }
  if (counted) {
    if (tick % wake_latency::picks_between == 0) p.time_next_wake = true;
    const std::int64_t time = coarse_time();
    const bool short_picks = std::exchange(p.counted_at, time) == time;
    if (tick / counted_pick % 2 == 0) {
      if (runnable* r = queues_.pick_injected(p)) return r;
    } else {
      queues_.fetch_ready(p);
      if (p.fresh.empty())
        if (runnable* r = queues_.pick_spilled_fresh(p)) return r;
    }
    if (short_picks)
      if (runnable* r = p.fresh.pop_back()) return r;
  }
  constexpr std::uint8_t in_rounds =
      attention::shared | attention::ready | attention::yielded | attention::fresh | attention::starved;
  const std::uint8_t asked = p.attention.load(std::memory_order_relaxed) & in_rounds;
  if ((p.round & asked) == 0) p.round = asked;
  if (take_up_in_round(p, attention::shared)) {
    queues_.fetch_ready(p);
    if (runnable* r = queues_.pick_injected(p)) return r;
  }
  if (take_up_in_round(p, attention::ready)) {
    put_next_behind(queues_, p);
    if (runnable* r = p.ready.pop_front()) return r;
  }
  if (take_up_in_round(p, attention::yielded)) {
    p.fresh_turn = false;
    p.yielded_turns = p.yielded.size();
    return begin_turn(queues_, p);
  }
  if (take_up_in_round(p, attention::fresh)) {
    if (runnable* r = queues_.pick_one_spilled_fresh()) return r;
    if (runnable* r = p.fresh.pop_front()) return r;
  }
  if (take_up_in_round(p, attention::starved)) {
    put_next_behind(queues_, p);
    p.fresh_turn = true;
    p.ready_limit = std::min(p.ready.size() + many_ready, processor::ring::capacity);
    p.ready_turns = 0;
    p.unneeded = 0;
    return begin_turn(queues_, p);
  }
  return (p.attention.load(std::memory_order_relaxed) & attention::turn) != 0 ? pick_in_turn(queues_, p) : nullptr;
}

// When the rings of those that come first are empty.
[[gnu::noinline]] runnable* scheduler::pick_last(processor& p) noexcept {
  if (runnable* r = p.yielded.pop_front()) return r;
  if (runnable* r = queues_.pick_injected(p)) return r;
  if (queues_.fetch_ready(p)) return p.ready.pop_front();
  if (runnable* r = queues_.pick_spilled_fresh(p)) return r;
  p.fruitless.add();
  return nullptr;
}

runnable* scheduler::pick(worker& w, processor& p) noexcept {
  bool fire = false;  // the caller goes to the native stack either way
  return pick_next<false>(w, p, fire);
}

}  // namespace coir::detail
