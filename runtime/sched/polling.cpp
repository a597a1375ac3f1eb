#include <algorithm>

#include <coir/detail/abi.hpp>

#include "base/clock.hpp"
#include "sched/switch.hpp"

// Where the workers and the poller meet (poller.hpp): who asks it for events, and where the fibers go that they wake.

namespace coir::inline COIR_ABI::detail {

// For the sleeper that is entered as the one in epoll. True if it has a processor now.
bool scheduler::sleep_in_poller(worker& w, deadline until) noexcept {
  poller::batch events;
  poller_.collect(events, until);
  poller_.answer(events);
  w.woken_by_one_event = events.size == 1;
  const std::int64_t woken_at = clock_.now();
  set_coarse_time(woken_at);

  idle_.lock();
  idle_.end_keeping(w);
  idle_.end_polling(w);
  const bool assigned = w.held != nullptr;
  const bool due = until != no_deadline && deadline_for_sleepers() <= woken_at;
  idle_.unlock();
  const bool has_processor =
      assigned || ((due || events.size != 0) && !stopping_.load(std::memory_order_relaxed) && take_idle_processor(w));
  deliver(w, events);
  // If this worker computes, only the monitor asks for the next events.
  if (has_processor) wake_monitor();
  return has_processor;
}

// On the native stack, with a processor or without. Returns whether there were any events.
bool scheduler::deliver(worker& w, const poller::batch& events) noexcept {
  if (events.size == 0) return false;
  if (w.held == nullptr) {  // all are busy
    set_current_worker(nullptr);
    deliver_from_outside(events);
    set_current_worker(&w);
    return true;
  }
  if (!w.searching) {  // so that the first event wakes no other worker: this one runs its fiber
    idle_.add_searcher();
    w.searching = true;
  }
  w.held->firing.store(true, std::memory_order_relaxed);
  poller::deliver(events);
  w.held->firing.store(false, std::memory_order_relaxed);
  w.brought += static_cast<std::uint32_t>(events.size - 1);
  w.held->more_events = events.more;
  return true;
}

void scheduler::deliver_from_outside(const poller::batch& events) noexcept {
  if (events.size == 0) return;
  poller::deliver(events);
  for (const auto& p : processors_) p->attention.fetch_or(attention::shared, std::memory_order_relaxed);
}

void scheduler::ask_poller_from_outside() noexcept {
  poller::batch events;
  poller_.collect(events, 0);
  deliver_from_outside(events);
}

// How many events are taken at a time. Events that do not fit the ready ring stay in the kernel, which keeps them in
// the order of their arrival. If they spilled over from the ring, they would run after events that come later. A few
// are taken even if the ring is full, because fibers that wake each other may keep it full for ever.
int scheduler::room_for_events(const processor& p) noexcept {
  constexpr int fewest = 16;
  const std::uint32_t taken = queues_.spilled_ready().size() == 0 ? p.ready.size() : processor::ring::capacity;
  return std::clamp(static_cast<int>(processor::ring::capacity - taken), fewest, poller::batch::capacity);
}

// Asks without waiting, unless a worker sleeps in epoll. Returns whether there were any events.
bool scheduler::ask_poller(worker& w) noexcept {
  w.held->asks_poller = false;
  w.held->more_events = false;  // deliver() sets it again
  if (!poller_.active() || idle_.anybody_polls()) return false;
  poller::batch events;
  poller_.collect(events, 0, room_for_events(*w.held));
  return deliver(w, events);
}

// Whether a worker that has run dry goes to sleep in the poller without asking it first. It does if its last sleep
// there ended with a single event. Where one connection is served at a time, that happens again and again, and asking
// first would be a system call for nothing. If the guess is wrong nothing is lost, because epoll reports at once what
// is ready. If other workers are busy the worker searches before it sleeps, so it asks first.
bool scheduler::sleeps_for_next_event(const worker& w) const noexcept {
  return w.woken_by_one_event && idle_.count() + 1 == processors_.size();
}

namespace {

/// By a fiber: counts in its processor, or outside if it has lost that.
void count(counter processor::* here, std::atomic<std::uint64_t>& outside) noexcept {
  worker& w = *current_worker();
  if (processor* p = w.enter()) {
    (p->*here).add();
    w.leave();
  } else {
    outside.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace

void scheduler::begin_io_wait() noexcept { count(&processor::io_begun, outside_.io_begun); }
void scheduler::end_io_wait() noexcept { count(&processor::io_ended, outside_.io_ended); }

std::uint64_t scheduler::io_waits() const noexcept {
  std::uint64_t waits =
      outside_.io_begun.load(std::memory_order_relaxed) - outside_.io_ended.load(std::memory_order_relaxed);
  for (const auto& p : processors_) waits += p->io_begun.value() - p->io_ended.value();
  return waits;
}

}  // namespace coir::detail
