// The decisions that are taken when nothing runs.
//
// A runtime is quiescent when all its processors are idle, no worker runs a fiber without one, and the shared queues
// are empty; then its counts are exact. It is drained if no fiber is left. It is stuck if fibers are left, no timer is
// pending and none of them waits for a descriptor: that may be a deadlock (deadlock_unwinder.hpp).
//
// The plain threads that wait (wait_until) decide this, not the workers. If no thread waits, the process has a thread
// that does something else, and there is no deadlock. The last worker to go idle wakes the waiting threads. While it is
// not certain that a stuck runtime is deadlocked, a waiting thread looks again after a while, since a thread that ends
// does not wake it.
#include <algorithm>
#include <new>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include <coir/detail/abi.hpp>
#include <coir/detail/stackless.hpp>

#include "base/asymmetric_fence.hpp"
#include "base/report.hpp"
#include "fiber/waiter_access.hpp"
#include "sched/registry.hpp"
#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::int64_t first_recheck = 10'000'000;
constexpr std::int64_t last_recheck = 1'000'000'000;

}  // namespace

quiescence scheduler::look() noexcept {
  quiescence seen;
  const std::lock_guard locked(idle_);
  seen.holds = idle_.all_idle() && idle_.lost() == 0 && queues_.empty();
  if (!seen.holds) return seen;
  std::uint64_t started = outside_.started.load(std::memory_order_relaxed);
  std::uint64_t ended = outside_.ended.load(std::memory_order_relaxed);
  for (const auto& p : processors_) {
    started += p->started.value();
    ended += p->ended.value();
    seen.timers = seen.timers || p->timers.pending() != 0;
  }
  seen.timers = seen.timers || io_waits() != 0;
  seen.drained = started == ended;
  seen.epoch = idle_.epoch();
  return seen;
}

void scheduler::note_quiescent() noexcept {
  if (!waiting_.any()) return;
  const quiescence seen = look();
  if (seen.drained || (seen.stuck() && !waiting_.anybody_watches())) waiting_.notify();
}

void scheduler::wait_until(const std::function<bool()>& done) {
  waiting_threads::member self(waiting_);
  const runtime_threads::blocked_in_run counted(done);  // last: a counted thread is known to wait here
  std::int64_t recheck = first_recheck;
  for (;;) {
    const std::uint32_t event = waiting_.event();
    const bool finished = done();  // first: if an unwinding has made it true, that is seen next
    if (const deadline next = deadlocks_.proceed(*this); next != no_deadline) {
      if (finished && self.leave_to_others()) return;
      waiting_.sleep(event, next);
      continue;
    }
    if (finished) return;
    if (!look().stuck()) {
      waiting_.sleep(event);
      continue;
    }
    try {
      if (deadlocks_.begin_if_certain(*this)) {
        recheck = first_recheck;
        continue;
      }
    } catch (const std::bad_alloc&) {  // for the report; nobody has been woken, and the next look tries again
    }
    // A thread or runtime outside may still act. If so the wait goes on until the workers have slept, woken and slept
    // again.
    waiting_.watch(event, clock_.now() + recheck);
    recheck = std::min(recheck * 2, last_recheck);
  }
}

void scheduler::wait_drained() {
  wait_until([this] { return look().drained; });
}

void scheduler::cancel_all() noexcept try {
  cancel_all_.store(true, std::memory_order_relaxed);
  heavy_fence();  // pairs with the light one in run_fiber(): the flag, then the states
  for (fiber* f : stacks_.all()) {
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
