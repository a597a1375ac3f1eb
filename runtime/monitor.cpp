// The monitor: a thread that looks, now and then, whether work waits behind a fiber that computes on and on, or that
// blocks its thread. While processors are idle it wakes a worker that takes the work; else it retakes the processor
// (retake.cpp). It is what makes the thrifty wake rules of idle.cpp safe.
//
// It also finds timers that are overdue because who slept until their deadline was woken for something else, or because
// their processor's fiber computes.
//
// A processor that picks (its tick moves) is fine. One whose tick stands still from one look to the next, while
// something waits behind it, is judged by its thread:
//   its CPU clock stands still, and the kernel says that it sleeps    blocked: retaken at once
//   its CPU clock stands still, and it is runnable                    merely descheduled: nobody's fault, left alone
//   its CPU clock has moved by options::time_slice at this tick       computing: retaken; but only after pushing_slices
//                                                                     of them if it keeps starting or waking fibers,
//                                                                     which costs more without a processor
//
// It looks every largest_delay, more often while something is suspicious, and sleeps on monitor_word_ while all
// processors are idle and stay so; monitor_sleeps is then set in idle_. It is woken by whoever
//   - leaves work on a processor, or arms a timer there, without waking a worker;
//   - goes idle while another processor is busy;
//   - takes the sleeper that had the timeout for the next timer;
// (COIR_DEBUG=schedtrace also wakes it for each line);
// so nothing can wait for it while it sleeps. States of monitor_word_: 0 polling, 1 asleep, 2 told to end.
#include <algorithm>
#include <cstdio>
#include <utility>

#include <sys/prctl.h>
#include <unistd.h>

#include "clock.hpp"
#include "futex.hpp"
#include "scheduler.hpp"
#include "worker_thread.hpp"

namespace coir::detail {

namespace {

constexpr std::int64_t smallest_delay = 50'000;
constexpr std::int64_t suspicious_delay = 150'000;
constexpr std::int64_t largest_delay = 800'000;
constexpr std::int64_t overdue_timer = 1'000'000;
constexpr std::int64_t overdue_search = 1'000'000;  // of who searches, for 50 us, or wakes somebody who will
constexpr std::int64_t pushing_slices = 10;
constexpr unsigned idle_polls_before_sleep = 2;

// Every trim_period the memory of stacks that were free all the time, but for a few, goes back: all of it when
// everything is idle, a share else.
constexpr std::int64_t trim_period = 1'000'000'000;
constexpr std::size_t stacks_kept = 1024;
constexpr unsigned busy_trims = 64;
constexpr std::size_t trim_batch = 64;  // under the pool's lock, about a microsecond each

}  // namespace

void scheduler::monitor() noexcept {
  ::prctl(PR_SET_TIMERSLACK, 5'000UL);
  const auto count = static_cast<std::uint32_t>(processors_.size());
  std::int64_t delay = smallest_delay;
  unsigned idle_polls = 0;
  std::uint64_t epoch = 0;
  std::int64_t last_trim = clock_.now();
  std::int64_t stale_since = 0;
  deadline next_line = debug_.schedtrace != 0 ? born_ + debug_.schedtrace : no_deadline;  // of COIR_DEBUG=schedtrace
  const auto line_due = [&] { return next_line != no_deadline && next_line <= clock_.now(); };
  while (monitor_word_.load(std::memory_order_acquire) != 2) {
    if (line_due()) next_line = print_schedtrace();
    const std::uint32_t idle = idle_count();
    // Idle time and again, as with many sleepers, is not idle: to be woken each time costs more than to look.
    if (const std::uint64_t current = busy_epoch_.value(); idle != count || current != epoch) {
      idle_polls = 0;
      epoch = current;
    }
    if (idle == count && nothing_shared() && ++idle_polls >= idle_polls_before_sleep) {
      std::uint32_t polling = 0;
      monitor_word_.compare_exchange_strong(polling, 1, std::memory_order_seq_cst);
      idle_.fetch_or(monitor_sleeps, std::memory_order_seq_cst);
      heavy_fence();  // pairs with the light one between a push and the load of idle_, and in wake_monitor()
      while (all_quiet() && monitor_word_.load(std::memory_order_relaxed) == 1 && !line_due()) {
        if (pool_.free_count() <= stacks_kept) {
          futex_wait(monitor_word_, 1, next_line);
        } else {
          futex_wait(monitor_word_, 1, std::min(last_trim + trim_period, next_line));
          last_trim = trim_stacks(last_trim, clock_.now());
        }
      }
      idle_.fetch_and(~monitor_sleeps, std::memory_order_seq_cst);
      std::uint32_t asleep = 1;
      monitor_word_.compare_exchange_strong(asleep, 0, std::memory_order_seq_cst);
      idle_polls = 0;
      delay = smallest_delay;
      continue;
    }
    const std::int64_t time = clock_.now();
    last_trim = trim_stacks(last_trim, time);
    futex_wait(monitor_word_, 0, std::min(time + delay, next_line));
    const finding found = look_after(seen_, slow_);
    if (found != finding::stale) stale_since = 0;
    switch (found) {
      case finding::nothing:
        delay = std::min(delay * 2, largest_delay);
        break;
      case finding::suspicious:
        delay = suspicious_delay;
        break;
      case finding::stale:
        delay = smallest_delay;
        if (stale_since == 0) stale_since = time;
        if (clock_.now() - stale_since < overdue_search) {
          wake_one();
        } else {  // the operating system has descheduled who searches: the others are not to wait for that one
          searching_.fetch_add(1, std::memory_order_seq_cst);
          wake_searcher();
          stale_since = 0;
        }
        break;
    }
  }
}

// At one moment: else a worker might take a processor after the one load and what is shared before the other, and the
// monitor would sleep beside a fiber that runs, while that worker was the one who kept the next deadline.
bool scheduler::all_quiet() noexcept {
  idle_lock_.lock();
  const bool quiet = idle_count() == processors_.size() && nothing_shared();
  idle_lock_.unlock();
  return quiet;
}

// Returns when it was last done. Not to the end if the monitor is woken meanwhile: something depends on it.
std::int64_t scheduler::trim_stacks(std::int64_t last, std::int64_t time) noexcept {
  if (time - last < trim_period) return last;
  const std::uint32_t word = monitor_word_.load(std::memory_order_relaxed);
  std::size_t left = pool_.unused();
  for (unsigned i = 0; left != 0 && (i < busy_trims || idle_count() == processors_.size()); ++i) {
    if (const std::uint32_t current = monitor_word_.load(std::memory_order_relaxed); current != word || current == 2)
      break;
    const std::size_t n = pool_.trim(stacks_kept, std::min(left, trim_batch));
    if (n == 0) break;
    left -= n;
  }
  return time;
}

/// Whether something that p's worker does not run waits there. What waits in the shared queues waits behind all.
bool scheduler::waits_behind(processor& p, deadline time) const noexcept {
  return !p.fresh.empty() || !p.ready.empty() || p.has_next.load(std::memory_order_relaxed) ||
         p.timers.earliest() < time - overdue_timer;
}

/// One look at every processor.
scheduler::finding scheduler::look_after(std::vector<watch>& seen, slow_slices& slow) noexcept {
  const bool shared = !nothing_shared();
  const bool somebody_idle = idle_count() != 0;
  bool stale = shared && somebody_idle;
  bool suspicious = false;
  bool queued = shared;  // work waits somewhere: a blocked worker's processor could serve it
  const deadline time = clock_.now();
  set_coarse_time(time);
  for (const auto& p : processors_) queued = queued || !p->fresh.empty() || !p->ready.empty();
  for (const auto& each : processors_) {
    processor& p = *each;
    watch& last = seen[p.index()];
    worker* w = p.owner();
    const watch current{w,
                        p.tick.load(std::memory_order_relaxed),
                        p.fresh.head(),
                        p.ready.head(),
                        p.fresh.tail() + p.ready.tail(),
                        -1,
                        0,
                        0,
                        0};
    const bool same = last.who == w && last.tick == current.tick;
    if (slow && w != nullptr) [[unlikely]]
      slow.look(p, *w, time, cpu_time_of(*w));
    const bool waits = waits_behind(p, time);
    if (somebody_idle &&
        ((!p.fresh.empty() && current.fresh_head == last.fresh_head) ||
         (!p.ready.empty() && current.ready_head == last.ready_head) || p.timers.earliest() < time - overdue_timer)) {
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
    suspicious = true;
    const bool stood_still = cpu == last.cpu;
    last.cpu = cpu;
    if (std::exchange(last.pushed, current.pushed) != current.pushed) last.cpu_push = cpu;
    const bool computes = cpu - last.cpu_push >= time_slice_ || cpu - last.cpu_first >= time_slice_ * pushing_slices;
    if (stood_still && !sleeps_in_kernel(*w)) continue;  // descheduled
    if (waits && somebody_idle) {
      mark_overdue(p);
      stale = true;
    } else if (stood_still || ((waits || shared) && computes)) {
      if (slow) [[unlikely]]
        slow.about_to_retake(p, *w, time - last.since);
      if (retake(p, *w, current.tick)) {
        last = {};
        queued = false;  // one more may suffice; else the next look tells
      }
    }
  }
  return stale ? finding::stale : suspicious ? finding::suspicious : finding::nothing;
}

void scheduler::mark_overdue(processor& p) noexcept {
  p.wake_gap.store(0, std::memory_order_relaxed);
  p.overdue.store(true, std::memory_order_relaxed);
}

void scheduler::wake_monitor() noexcept {
  light_fence();  // pairs with the heavy one in monitor(): what may wait, then the word
  std::uint32_t asleep = 1;
  if (monitor_word_.load(std::memory_order_relaxed) != asleep) return;
  if (monitor_word_.compare_exchange_strong(asleep, 0, std::memory_order_seq_cst)) futex_wake(monitor_word_);
}

}  // namespace coir::detail
