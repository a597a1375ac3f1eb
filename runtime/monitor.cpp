// The monitor: a thread that looks, now and then, whether work waits on a busy processor while others are idle, and
// wakes a worker for it. It is what makes the thrifty wake rules of idle.cpp safe: a fiber in `next`, or a few in a
// queue, whose processor's running fiber computes on and on, are found within largest_delay; or within all_busy_delay,
// if a moment ago all processors were busy.
//
// It also finds timers that are overdue because who slept until their deadline was woken for something else.
//
// It polls while some processors are busy and some idle; at long intervals while all are busy (nobody could be woken);
// and sleeps on monitor_word_ while all are idle. It is woken by whoever
//   - leaves work on a processor, or arms a timer there, without waking a worker, while another processor is idle;
//   - goes idle while another processor is busy;
//   - takes the sleeper that had the timeout for the next timer;
// so nothing can wait for it while it sleeps. States of monitor_word_: 0 polling, 1 asleep, 2 told to end.
#include <algorithm>

#include "clock.hpp"
#include "futex.hpp"
#include "scheduler.hpp"

namespace coir::detail {

namespace {

constexpr std::int64_t smallest_delay = 50'000;
constexpr std::int64_t largest_delay = 1'000'000;
constexpr std::int64_t all_busy_delay = 10'000'000;
constexpr unsigned idle_polls_before_sleep = 2;

}  // namespace

void scheduler::monitor() noexcept {
  const auto count = static_cast<std::uint32_t>(processors_.size());
  std::vector<victim_sample> last(count);
  std::int64_t delay = smallest_delay;
  unsigned idle_polls = 0;
  while (monitor_word_.load(std::memory_order_acquire) != 2) {
    const std::uint32_t idle = idle_.load(std::memory_order_relaxed);
    if (idle == count && ++idle_polls >= idle_polls_before_sleep) {
      std::uint32_t polling = 0;
      monitor_word_.compare_exchange_strong(polling, 1, std::memory_order_seq_cst);
      heavy_fence();  // pairs with the light one before the look at monitor_word_ in wake_monitor(): a push, then the
                      // word
      if (idle_.load(std::memory_order_relaxed) == count) futex_wait(monitor_word_, 1);
      std::uint32_t asleep = 1;
      monitor_word_.compare_exchange_strong(asleep, 0, std::memory_order_seq_cst);
      idle_polls = 0;
      delay = smallest_delay;
      continue;
    }
    if (idle != count) idle_polls = 0;
    futex_wait(monitor_word_, 0, clock_.now() + (idle == 0 ? all_busy_delay : delay));
    if (idle_.load(std::memory_order_relaxed) != 0 && find_stale(last)) {
      delay = smallest_delay;
      wake_one();
    } else {
      delay = std::min(delay * 2, largest_delay);
    }
  }
}

/// Whether something has waited since the last look; takes the next sample.
bool scheduler::find_stale(std::vector<victim_sample>& last) noexcept {
  bool stale = !nothing_shared();
  const deadline time = clock_.now();
  for (const auto& each : processors_) {
    processor& p = *each;
    victim_sample& seen = last[p.index()];
    const victim_sample current{p.fresh.head(), p.ready.head(), p.tick.load(std::memory_order_relaxed), 0, 0, 0};
    const bool waits = p.timers.earliest() < time - largest_delay ||
                       (!p.fresh.empty() && current.fresh_head == seen.fresh_head) ||
                       (!p.ready.empty() && current.ready_head == seen.ready_head) ||
                       (p.has_next.load(std::memory_order_relaxed) && current.tick == seen.tick);
    seen = current;
    if (!waits) continue;
    p.wake_gap.store(0, std::memory_order_relaxed);
    p.overdue.store(true, std::memory_order_relaxed);
    stale = true;
  }
  return stale;
}

void scheduler::wake_monitor() noexcept {
  light_fence();  // pairs with the heavy one in monitor(): what may wait, then the word
  std::uint32_t asleep = 1;
  if (monitor_word_.load(std::memory_order_relaxed) != asleep) return;
  if (monitor_word_.compare_exchange_strong(asleep, 0, std::memory_order_seq_cst)) futex_wake(monitor_word_);
}

}  // namespace coir::detail
