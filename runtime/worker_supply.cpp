// Where workers come from: the sleepers; else a new thread, up to options::max_threads. One that sleeps for long while
// more sleep than there are processors ends its thread, and its worker object waits for another.
//
// A worker without a thread (`started` unset) is in no list but workers_, whose objects stay where they are for the
// life of the runtime. Its last thread may not be over: it runs the destructors of its thread_locals, which are a
// user's, and may wait for fibers. So until it has exited the worker gets no other, and nobody waits for that.
#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "futex.hpp"
#include "report.hpp"
#include "sanitizer.hpp"
#include "scheduler.hpp"
#include "threads.hpp"

namespace coir::detail {

namespace {

bool has_exited(std::thread& t) noexcept {
  if (!t.joinable()) return true;
  if (::pthread_tryjoin_np(t.native_handle(), nullptr) != 0) return false;
  std::construct_at(&t);  // which was joined behind its back
  return true;
}

}  // namespace

std::unique_ptr<worker> scheduler::make_worker() {
  auto w = std::make_unique<worker>(*this, debug_.heldlock != 0);
  w->samples.resize(seen_.size());
  return w;
}

// Under idle_lock_: a worker to hand a processor to, out of the sleepers; one without a thread if nobody sleeps. Null:
// there is no memory, or there are max_threads_ of them and some are about to have no thread any more.
worker* scheduler::take_sleeper(bool& new_thread) noexcept {
  new_thread = false;
  if (!sleepers_.empty()) {
    // The keeper stays with its timeout if anybody else is there.
    if (sleepers_.back() == keeper_) std::swap(sleepers_.back(), sleepers_.front());
    worker* w = sleepers_.back();
    sleepers_.pop_back();
    return w;
  }
  bool ending = false;
  auto unstarted = std::find_if(workers_.begin(), workers_.end(), [&ending](const auto& each) {
    if (each->started) return false;
    if (has_exited(each->thread)) return true;
    ending = true;
    return false;
  });
  if (unstarted == workers_.end()) {
    if (workers_.size() >= max_threads_) {
      if (ending) return nullptr;
      idle_lock_.unlock();
      fatal("all of ", max_threads_, " threads (options::max_threads) are blocked, or compute, in fibers");
    }
    const tsan_section section(&workers_);
    try {
      sleepers_.reserve(workers_.size() + 1);
      workers_.push_back(make_worker());
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    unstarted = std::prev(workers_.end());
  }
  (*unstarted)->started = true;
  new_thread = true;
  return unstarted->get();
}

// The worker that take_sleeper() gave has been handed the processor: wakes it, or starts its thread. False: there is no
// thread to be had.
bool scheduler::start_taken(worker& w, processor& p, bool new_thread) noexcept {
  if (!new_thread) {
    w.awake.store(1, std::memory_order_release);
    futex_wake(w.awake);
    return true;
  }
  try {
    start_thread(w);
    return true;
  } catch (const std::exception& e) {  // no thread, or no memory for one
    // The workers that there are do the work, and a later push, or the monitor, tries again.
    report_once(e);
  }
  p.give_to(nullptr);
  idle_lock_.lock();
  w.held = nullptr;
  w.started = false;
  share_all(p);
  idle_processors_.push_back(&p);
  idle_.fetch_add(1, std::memory_order_seq_cst);
  if (std::exchange(w.searching, false)) searching_.fetch_sub(1, std::memory_order_seq_cst);
  w.woken = false;
  publish_idle_deadline();
  const bool all_idle = idle_count() == processors_.size();
  const bool sleeper = !sleepers_.empty();
  const bool unkept = idle_deadline_.load(std::memory_order_relaxed) < keeper_deadline_;
  idle_lock_.unlock();
  heavy_fence();  // pairs with the light one after each push
  if (sleeper && (unkept || work_visible())) wake_one();
  wake_monitor();  // it tries again
  if (all_idle) note_quiescent();
  return false;
}

void scheduler::report_once(const std::exception& e) noexcept {
  if (thread_failure_reported_.exchange(true)) return;
  std::fprintf(stderr, "coir: no thread for a processor: %s; its fibers wait for another one\n", e.what());
}

void scheduler::start_thread(worker& w) {
  w.thread = runtime_threads::start([this, &w] { work(w); });
}

// A sleeper that has not been needed for long, and of which there are more than processors, ends its thread.
bool scheduler::end_surplus(worker& w) noexcept {
  bool ends = false;
  idle_lock_.lock();
  if (w.held == nullptr && !stopping_.load(std::memory_order_relaxed) && w.awake.load(std::memory_order_relaxed) == 0 &&
      sleepers_.size() > processors_.size()) {
    std::erase(sleepers_, &w);
    runtime_threads::forget(1);
    w.started = false;
    ends = true;
  }
  idle_lock_.unlock();
  return ends;
}

std::vector<worker*> scheduler::started_workers() {
  std::vector<worker*> all;
  const std::lock_guard locked(idle_lock_);
  for (const auto& w : workers_)
    if (w->started) all.push_back(w.get());
  return all;
}

unsigned scheduler::index_of(const worker& w) noexcept {
  idle_lock_.lock();
  const auto at = std::find_if(workers_.begin(), workers_.end(), [&w](const auto& each) { return each.get() == &w; });
  const auto index = static_cast<unsigned>(at - workers_.begin());
  idle_lock_.unlock();
  return index;
}

}  // namespace coir::detail
