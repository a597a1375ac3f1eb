#include "sched/worker_supply.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

#include <coir/detail/abi.hpp>

#include "base/futex.hpp"
#include "base/report.hpp"
#include "base/sanitizer.hpp"
#include "sched/registry.hpp"
#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI::detail {

worker_supply::worker_supply(scheduler& home, std::size_t processors, std::size_t max_threads, bool check_locks)
    : processors_(processors), max_threads_(std::max(max_threads, processors)), check_locks_(check_locks) {
  while (workers_.size() < processors) workers_.push_back(make(home));
}

worker_supply::~worker_supply() = default;

std::unique_ptr<worker> worker_supply::make(scheduler& home) const {
  auto w = std::make_unique<worker>(home, check_locks_);
  w->samples.resize(processors_);
  return w;
}

worker* worker_supply::take(scheduler& home, idle_set& idle) {
  bool ending = false;
  auto found = std::find_if(workers_.begin(), workers_.end(), [&ending](const auto& each) {
    if (each->started) return false;
    if (each->thread.join_if_ended()) return true;
    ending = true;
    return false;
  });
  if (found == workers_.end()) {
    if (workers_.size() >= max_threads_) {
      if (ending) return nullptr;
      idle.unlock();
      fatal("all of ", max_threads_, " threads (options::max_threads) are blocked, or compute, in fibers");
    }
    const tsan_section section(this);
    idle.reserve_sleepers(workers_.size() + 1);
    workers_.push_back(make(home));
    found = std::prev(workers_.end());
  }
  (*found)->started = true;
  return found->get();
}

int worker_supply::start(worker& w) noexcept {
  return runtime_threads::start(
      w.thread,
      [](void* arg) -> void* {
        auto& self = *static_cast<worker*>(arg);
        self.home->work(self);
        return nullptr;
      },
      &w);
}

void worker_supply::report(int error) noexcept {
  if (failure_reported_.exchange(true)) return;
  char text[128];
  std::fprintf(stderr, "coir: no thread for a processor: %s; its fibers wait for another one\n",
               ::strerror_r(error, text, sizeof text));
}

void worker_supply::retire(worker& w) noexcept {
  runtime_threads::forget(1);
  w.started = false;
}

std::size_t worker_supply::started_count() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(workers_.begin(), workers_.end(), [](const auto& w) { return w->started.load(); }));
}

internal_vector<worker*> worker_supply::started() const {
  internal_vector<worker*> all;
  for (const auto& w : workers_)
    if (w->started) all.push_back(w.get());
  return all;
}

unsigned worker_supply::index_of(const worker& w) const noexcept {
  const auto at = std::find_if(workers_.begin(), workers_.end(), [&w](const auto& each) { return each.get() == &w; });
  return static_cast<unsigned>(at - workers_.begin());
}

void worker_supply::forget_threads() noexcept {
  runtime_threads::forget(static_cast<std::size_t>(std::count_if(
      workers_.begin(), workers_.end(), [](const auto& w) { return w->started && w->thread.joinable(); })));
}

void worker_supply::end_threads() noexcept {
  for (const auto& w : workers_) {
    w->awake.store(1, std::memory_order_release);
    futex_wake(w->awake);
  }
  for (const auto& w : workers_)
    if (w->thread.joinable()) w->thread.join();
}

}  // namespace coir::detail
