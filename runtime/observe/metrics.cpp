// Reading what the scheduler counts (<coir/metrics.hpp>).
#include <coir/metrics.hpp>

#include <coir/detail/abi.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI {

namespace detail {

namespace {

std::uint64_t runs_of(const processor& p) noexcept {
  const std::uint64_t fruitless = p.fruitless.value();
  // The oldest stolen fiber ran without having been picked.
  const std::uint64_t picks = p.tick.load(std::memory_order_relaxed) + p.steals.value();
  return picks - std::min(picks, fruitless);
}

}  // namespace

std::uint64_t scheduler::runs() const noexcept {
  std::uint64_t all = 0;
  for (const auto& p : processors_) all += runs_of(*p);
  return all;
}

// The workers are counted under idle_'s lock. The rest is read as it is.
metrics_snapshot scheduler::snapshot() {
  metrics_snapshot m;
  m.processors.resize(processors_.size());
  // Ends before starts: a fiber whose end is seen has its start seen too, so that no negative number is left.
  m.ended = outside_.ended.load(std::memory_order_acquire);
  for (const auto& p : processors_) m.processors[p->index()].ended = p->ended.value_acquire();
  m.started = outside_.started.load(std::memory_order_relaxed);
  m.parked = outside_.parked.load(std::memory_order_relaxed);
  m.injected = outside_.injected.load(std::memory_order_relaxed);
  for (const auto& each : processors_) {
    const processor& p = *each;
    processor_metrics& of = m.processors[p.index()];
    of.started = p.started.value();
    of.parked = p.parked.value();
    of.steals = p.steals.value();
    of.stolen = p.stolen.value();
    of.runs = runs_of(p);
    of.retaken = p.retaken.value();
    of.handed_off = p.handed_off.value();
    of.wake_latency = p.latency.snapshot();
    of.idle = p.owner() == nullptr;
    of.ready = p.ready.size() + p.yielded.size();
    of.fresh = p.fresh.size();
    of.next = p.next_is.load(std::memory_order_relaxed) != next_state::none ? 1 : 0;
    of.timers = p.timers.pending();
    of.cached_stacks = p.stack_count.value();

    m.runs += of.runs;
    m.started += of.started;
    m.ended += of.ended;
    m.parked += of.parked;
    m.steals += of.steals;
    m.stolen += of.stolen;
    m.retaken += of.retaken;
    m.handed_off += of.handed_off;
    m.wake_latency += of.wake_latency;
    m.ready += of.ready;
    m.fresh += of.fresh;
    m.next += of.next;
    m.timers += of.timers;
    m.free_stacks += of.cached_stacks;
  }
  m.live = m.started - m.ended;
  m.wakes = costs_.wakes.value();
  m.useless_wakes = costs_.useless_wakes.value();
  m.searches = costs_.searches.value();
  m.looks = costs_.looks.value();
  m.polls = poller_.asked();
  m.futex_calls = costs_.futex_calls.value();
  m.membarriers = costs_.membarriers.value();
  m.injected_queue = queues_.injected().size();
  m.spilled_ready = queues_.spilled_ready().size();
  m.spilled_fresh = queues_.spilled_fresh().size();
  m.searching = idle_.searching();
  const stack_pool::counts stacks = stacks_.count();
  m.stacks = stacks.made;
  m.free_stacks += stacks.free;

  idle_.lock();
  m.idle = idle_.processors();
  m.threads = workers_.started_count();
  m.asleep = idle_.sleepers();
  m.lost = idle_.lost();
  idle_.unlock();
  m.running = m.threads - std::min(m.threads, m.asleep + m.lost);
  return m;
}

}  // namespace detail

std::uint64_t latency_histogram::count() const noexcept {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

std::chrono::nanoseconds latency_histogram::quantile(double q) const noexcept {
  const std::uint64_t all = count();
  if (all == 0) return std::chrono::nanoseconds::zero();
  const double wanted = std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(all));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets; ++i) {
    seen += counts[i];
    if (counts[i] != 0 && static_cast<double>(seen) >= wanted) return bound(i);
  }
  return bound(buckets - 1);
}

latency_histogram& latency_histogram::operator+=(const latency_histogram& other) noexcept {
  for (std::size_t i = 0; i < buckets; ++i) counts[i] += other.counts[i];
  sum += other.sum;
  return *this;
}

metrics_snapshot metrics() { return detail::current_scheduler("coir::metrics").snapshot(); }

metrics_snapshot runtime::metrics() const { return scheduler_->snapshot(); }

}  // namespace coir
