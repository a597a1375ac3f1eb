#include "sched/monitor.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include <sys/prctl.h>

#include <coir/detail/abi.hpp>

#include "base/clock.hpp"
#include "base/futex.hpp"
#include "sched/kernel_view.hpp"
#include "sched/registry.hpp"
#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::int64_t smallest_delay = 50'000;
constexpr std::int64_t suspicious_delay = 150'000;
constexpr std::int64_t delay_if_waiting = 400'000;  // with attention asked for at the second look: pick.cpp
constexpr std::int64_t delay_if_flowing = 4 * delay_if_waiting;
constexpr std::int64_t longest_delay = 8 * delay_if_waiting;
// How much later than that the kernel may end the wait. Two ticks (of 4 ms) after a quiet look, because a timer that is
// due sooner makes the kernel slower each time a CPU goes idle and wakes: 5 us a request of an echo server.
constexpr std::int64_t exact = 5'000;
constexpr std::int64_t lax = 8'000'000;
constexpr std::int64_t overdue_timer = 1'000'000;
constexpr std::int64_t overdue_search = 1'000'000;  // a search takes 50 us, or a wake-up and then a search
constexpr std::int64_t pushing_slices = 10;
// Threads whose fibers touch new memory wait for each other in the kernel, up to some ms. With one more of them they
// would wait longer.
constexpr std::int64_t soon_over = 3'000'000;
constexpr std::int64_t holding_up = 1'000'000;  // of CPU time
constexpr unsigned idle_polls_before_sleep = 2;

// Every trim_period, the memory of stacks that were free all the time is given back, except for a few stacks. All of it
// is given back if everything is idle, otherwise a share.
constexpr std::int64_t trim_period = 1'000'000'000;
constexpr std::size_t stacks_kept = 1024;
constexpr unsigned busy_trims = 64;
constexpr std::size_t trim_batch = stack_pool::part_stacks;

/// Whether work waits at p that p's worker does not run. (Work in the shared queues waits behind all processors.)
bool waits_behind(const processor& p, deadline time) noexcept {
  return !p.fresh.empty() || !p.ready.empty() || !p.yielded.empty() ||
         p.next_is.load(std::memory_order_relaxed) != next_state::none || p.timers.earliest() < time - overdue_timer;
}

void mark_overdue(processor& p) noexcept {
  p.wakes.forget_useless();
  p.overdue.store(true, std::memory_order_relaxed);
}

}  // namespace

void monitor::start(scheduler& s) {
  thread_ = runtime_threads::start([this, &s] { run(s); });
}

void monitor::stop() noexcept {
  if (!thread_.joinable()) return;
  runtime_threads::forget(1);
  word_.store(ending, std::memory_order_seq_cst);
  futex_wake(word_);
  thread_.join();
}

void monitor::run(scheduler& s) noexcept {
  std::int64_t slack = 0;  // as the thread was started
  const std::uint32_t count = s.processor_count();
  std::int64_t delay = smallest_delay;
  unsigned idle_polls = 0;
  std::uint64_t epoch = 0;
  std::int64_t last_trim = s.clock().now();
  std::int64_t stale_since = 0;
  finding last_found = finding::nothing;
  deadline next_line = schedtrace_ != 0 ? born_ + schedtrace_ : no_deadline;  // of COIR_DEBUG=schedtrace
  const auto line_due = [&] { return next_line != no_deadline && next_line <= s.clock().now(); };
  while (word_.load(std::memory_order_acquire) != ending) {
    if (line_due()) next_line = print_schedtrace(s);
    const std::uint32_t idle = s.idle().count();
    // Processors that are idle again and again, as with many sleeping fibers, do not count as idle: to be woken each
    // time costs the monitor more than to look.
    if (const std::uint64_t current = s.idle().epoch(); idle != count || current != epoch) {
      idle_polls = 0;
      epoch = current;
    }
    if (idle == count && s.queues().empty() && ++idle_polls >= idle_polls_before_sleep) {
      std::uint32_t awake = polling;
      word_.compare_exchange_strong(awake, asleep, std::memory_order_seq_cst);
      s.idle().set_monitor_sleeps();
      s.costs().membarriers.add();
      heavy_fence();  // pairs with the light one between a push and the load of idle_, and in wake()
      while (all_quiet(s) && word_.load(std::memory_order_relaxed) == asleep && !line_due()) {
        if (s.stacks().common().free_count() <= stacks_kept) {
          s.costs().futex_calls.add();
          futex_wait(word_, asleep, next_line);
        } else {
          futex_wait(word_, asleep, std::min(last_trim + trim_period, next_line));
          last_trim = trim_stacks(s, last_trim, s.clock().now());
        }
      }
      s.idle().clear_monitor_sleeps();
      std::uint32_t slept = asleep;
      word_.compare_exchange_strong(slept, polling, std::memory_order_seq_cst);
      idle_polls = 0;
      // Work beside an idle processor waits for this look. Other work waits for the running fiber.
      last_found = finding::waiting;
      delay = s.idle().may_wake(s.idle().count()) ? smallest_delay : delay_if_waiting;
      continue;
    }
    const std::int64_t time = s.clock().now();
    last_trim = trim_stacks(s, last_trim, time);
    s.costs().futex_calls.add();
    const deadline timer = std::min(timer_, no_deadline - delay_if_waiting);
    const deadline at_latest = std::min(std::max(timer, time) + delay_if_waiting, next_line);
    const bool may_be_late = last_found == finding::nothing && time + delay + lax <= at_latest;
    if (const std::int64_t wanted = may_be_late ? lax : exact; std::exchange(slack, wanted) != wanted)
      ::prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(wanted));
    futex_wait(word_, polling, std::min(time + delay, at_latest));
    s.costs().looks.add();
    const finding found = look(s);
    const bool flowed = std::exchange(last_found, found) == finding::flowing;
    if (found != finding::stale) stale_since = 0;
    switch (found) {
      case finding::nothing:
        delay = std::clamp(delay * 2, delay_if_waiting, longest_delay);
        break;
      case finding::flowing:  // a second look tells
        delay = flowed ? delay_if_flowing : delay_if_waiting;
        break;
      case finding::waiting:
        delay = delay_if_waiting;
        break;
      case finding::idle_beside:  // a second look soon tells whether it is being served; then not so soon again
        delay = delay == smallest_delay ? delay_if_waiting : smallest_delay;
        break;
      case finding::suspicious:
        delay = suspicious_delay;
        break;
      case finding::stale:
        delay = smallest_delay;
        if (stale_since == 0) stale_since = time;
        if (s.clock().now() - stale_since < overdue_search) {
          s.wake_one(nullptr);
        } else {  // the searcher has been descheduled by the operating system: wake another one
          s.idle().add_searcher();
          s.wake_searcher(nullptr);
          stale_since = 0;
        }
        break;
    }
  }
}

// Both are read at one moment. Otherwise a worker might take a processor after the first load, and take shared work
// before the second. The monitor would then sleep beside a running fiber, and that worker may have been the keeper of
// the next deadline.
bool monitor::all_quiet(scheduler& s) const noexcept {
  const std::lock_guard locked(s.idle());
  return s.idle().all_idle() && s.queues().empty();
}

// Returns when stacks were last trimmed. It stops early if the monitor is woken, because something then depends on the
// monitor.
std::int64_t monitor::trim_stacks(scheduler& s, std::int64_t last, std::int64_t time) noexcept {
  if (time - last < trim_period) return last;
  const std::uint32_t before = word_.load(std::memory_order_relaxed);
  std::size_t left = s.stacks().common().unused();
  for (unsigned i = 0; left != 0 && (i < busy_trims || s.idle().all_idle()); ++i) {
    if (const std::uint32_t current = word_.load(std::memory_order_relaxed); current != before || current == ending)
      break;
    const std::size_t n = s.stacks().common().trim(stacks_kept, std::min(left, trim_batch));
    if (n == 0) break;
    left -= n;
  }
  return time;
}

// Asks p for attention to the kinds of work that have waited there since the last look (pick.cpp). Returns whether
// there are any.
bool monitor::ask_attention(processor& p, const watch& last, const watch& current, const shared_work& shared,
                            bool due) noexcept {
  std::uint8_t ask = 0;
  if (due) ask |= attention::due_timers;
  if (shared.any) ask |= attention::shared;
  if (current.tick != last.tick) {  // else no other work has gone before
    if (!p.ready.empty() && current.ready_head == last.ready_head) ask |= attention::ready;
    if (!p.yielded.empty() && current.yielded_head == last.yielded_head) ask |= attention::yielded;
    const bool fresh = !p.fresh.empty();
    if (shared.spilled || (fresh && current.fresh_head == last.fresh_head)) ask |= attention::fresh;
    if (shared.spilling || ((fresh || shared.spilled) && current.begun == last.begun)) ask |= attention::starved;
  }
  const std::uint8_t before = p.attention.load(std::memory_order_relaxed);
  if ((before & attention::turn) != 0) {  // the turn is over: the others run until the next look
    p.attention.fetch_and(static_cast<std::uint8_t>(~attention::turn), std::memory_order_relaxed);
    ask &= static_cast<std::uint8_t>(~(attention::starved | attention::yielded));
  }
  if ((ask & ~before) != 0) p.attention.fetch_or(ask, std::memory_order_relaxed);
  return (ask | before) != 0;
}

// Looks after the poller while something waits for events and no worker sleeps there. Flowing if a worker has asked it
// by itself since the last look.
monitor::finding monitor::watch_poller(scheduler& s) noexcept {
  poller& io = s.io();
  if (!io.active() || s.idle().anybody_polls() || (s.io_waits() == 0 && !io.has_guests())) {
    events_wanted_ = asked_unbidden_ = false;
    return finding::nothing;
  }
  const std::uint64_t asked = io.asked();
  if (asked != poller_asked_before_) {
    poller_asked_before_ = asked;
    runs_before_ = s.runs();
    asked_unbidden_ = !std::exchange(events_wanted_, false);
    return asked_unbidden_ ? finding::flowing : finding::waiting;
  }
  // It serves what it was given, or what that made ready.
  if (std::exchange(asked_unbidden_, false) && s.runs() != runs_before_) return finding::flowing;
  if (!events_wanted_) {
    events_wanted_ = true;
    // If a processor is idle: the woken worker asks, and then sleeps there.
    if (s.idle().may_wake(s.idle().count()) && s.wake_one(nullptr)) return finding::waiting;
    for (const auto& p : s.processors()) p->attention.fetch_or(attention::events, std::memory_order_relaxed);
  } else {  // all compute
    s.ask_poller_from_outside();
  }
  poller_asked_before_ = io.asked();
  return finding::waiting;
}

/// One look at every processor.
monitor::finding monitor::look(scheduler& s) noexcept {
  const std::size_t spilled = s.queues().spilled_fresh().size();
  const shared_work shared{!s.queues().empty(), spilled != 0, spilled > spilled_before_};
  spilled_before_ = spilled;
  const std::uint32_t idle = s.idle().count();
  const bool somebody_idle = idle != 0;
  const bool room = s.idle().may_wake(idle);  // for one more beside those that run
  const deadline time = s.clock().now();
  s.set_coarse_time(time);
  const deadline of_idle = s.idle().earliest();
  bool stale = shared.any && room;
  bool suspicious = false;
  bool all_stand_still = true;
  bool queued = shared.any;  // work waits somewhere: a blocked worker's processor could serve it
  const finding of_events = watch_poller(s);
  bool waiting = shared.any || of_events != finding::nothing;
  bool stands = shared.any || of_events == finding::waiting;  // something has waited since the last look
  bool idle_beside = false;
  bool left_behind = false;   // work waits beside an idle processor, behind a fiber that stands still
  std::uint32_t held_up = 0;  // processors, by fibers that compute on and on
  s.idle().lock();
  timer_ = s.idle().unkept() ? of_idle : no_deadline;
  s.idle().unlock();
  for (const auto& p : s.processors()) queued = queued || !p->fresh.empty() || !p->ready.empty() || !p->yielded.empty();
  for (const auto& each : s.processors()) {
    processor& p = *each;
    watch& last = seen_[p.index()];
    worker* w = p.owner();
    const watch current{w,
                        p.tick.load(std::memory_order_relaxed),
                        p.fresh.head(),
                        p.ready.head(),
                        p.yielded.head(),
                        p.begun.value(),
                        p.fresh.tail() + p.ready.tail(),
                        -1,
                        0,
                        0,
                        0};
    const bool same = last.who == w && last.tick == current.tick;
    if (w != nullptr) {
      all_stand_still = all_stand_still && same;
      if (last.who == w) {
        const deadline earliest = std::min(p.timers.earliest(), of_idle);
        stands = ask_attention(p, last, current, shared, earliest <= time) || stands;
      }
    }
    if (slow_ && w != nullptr) [[unlikely]]
      slow_.look(p, *w, time, cpu_time_of(*w));
    const bool waits = waits_behind(p, time);
    if (waits && last.who != w) stands = true;  // it was not compared: another owner
    waiting = waiting || waits || (w != nullptr && p.timers.earliest() <= time);
    if (w != nullptr) timer_ = std::min(timer_, p.timers.earliest());  // the processor's own pick may come first
    idle_beside = idle_beside || (waits && room);
    if (room && ((!p.fresh.empty() && current.fresh_head == last.fresh_head) ||
                 (!p.ready.empty() && current.ready_head == last.ready_head) ||
                 (!p.yielded.empty() && current.yielded_head == last.yielded_head) ||
                 p.timers.earliest() < time - overdue_timer)) {
      mark_overdue(p);
      stale = true;
    }
    if (w == nullptr || !(waits || queued)) {
      last = current;
      continue;
    }
    const std::int64_t cpu = cpu_time_of(*w);
    if (!same || last.cpu < 0) {
      last = current;
      last.cpu = last.cpu_first = last.cpu_push = cpu;
      last.since = time;
      if (p.timers.earliest() < time - overdue_timer) suspicious = true;
      continue;
    }
    last.fresh_head = current.fresh_head;
    last.ready_head = current.ready_head;
    last.yielded_head = current.yielded_head;
    suspicious = true;
    const bool stood_still = cpu == last.cpu;
    last.cpu = cpu;
    if (std::exchange(last.pushed, current.pushed) != current.pushed) last.cpu_push = cpu;
    const auto computes = [&](std::int64_t at_least) {
      return cpu - last.cpu_push >= at_least || cpu - last.cpu_first >= at_least * pushing_slices;
    };
    if (computes(holding_up)) ++held_up;
    if (stood_still) {
      const thread_state state = state_of(*w);
      if (state == thread_state::runnable) continue;  // descheduled
      if (state == thread_state::uninterruptible && time - last.since < soon_over) continue;
    }
    const bool stuck = stood_still || ((waits || shared.any) && computes(time_slice_));
    if (waits && somebody_idle && (room || !stuck)) {
      mark_overdue(p);
      left_behind = true;
    } else if (stuck) {
      if (slow_) [[unlikely]]
        slow_.about_to_retake(p, *w, time - last.since);
      if (s.retake(p, *w, current.tick)) {
        last = {};
        queued = false;  // one more may suffice; else the next look tells
      }
    }
  }
  // Those that are held up do not count as running. Others do, though they stand still: with one more worker than there
  // are CPUs, the system deschedules them in the middle of a fiber.
  if (somebody_idle && (left_behind || (shared.any && all_stand_still)) && s.idle().may_wake(idle + held_up))
    stale = true;
  if (stale) return finding::stale;
  if (idle_beside) return finding::idle_beside;
  if (suspicious) return finding::suspicious;
  if (stands) return finding::waiting;
  return waiting ? finding::flowing : finding::nothing;
}

void monitor::wake(idle_costs& costs) noexcept {
  light_fence();  // pairs with the heavy one in run(): what may wait, then the word
  std::uint32_t seen = asleep;
  if (word_.load(std::memory_order_relaxed) != seen) return;
  if (word_.compare_exchange_strong(seen, polling, std::memory_order_seq_cst)) {
    costs.futex_calls.add();
    futex_wake(word_);
  }
}

}  // namespace coir::detail
