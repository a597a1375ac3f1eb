#include <coir/task.hpp>

#include <coir/local_table.hpp>
#include <coir/stackless.hpp>
#include <coir/this_fiber.hpp>

#include "asymmetric_fence.hpp"
#include "report.hpp"
#include "sanitizer.hpp"
#include "scheduler.hpp"
#include "waiter_access.hpp"

namespace coir::detail {

task_state::task_state(entry f, source_location where) noexcept : start_record(f, where), id_(new_fiber_id()) {}

void task_state::belongs_to(stackless& s) noexcept {
  where_.store(reinterpret_cast<std::uintptr_t>(&s) | of_stackless, std::memory_order_relaxed);
}

/// Under lock_. Null: it is none.
stackless* task_state::sleeper() const noexcept {
  const std::uintptr_t at = where_.load(std::memory_order_relaxed);
  return (at & of_stackless) != 0 ? reinterpret_cast<stackless*>(at & ~of_stackless) : nullptr;
}

void task_state::begin() noexcept {
  fiber& self = *current_fiber();
  self.id = id_.number();
  where_.store(reinterpret_cast<std::uintptr_t>(&self), std::memory_order_release);
  light_fence();  // pairs with the heavy one in stop(): where_, then the request
  if (stop_requested_.load(std::memory_order_relaxed)) waiter_access::set_for_good(self.wait);
}

bool task_state::finish() noexcept {
  if (current_fiber()->locals != nullptr) [[unlikely]]
    end_locals();  // as a thread's thread_locals end before it is joined
  tsan_release(this);
  lock_.lock();
  finished_ = true;
  where_.store(0, std::memory_order_relaxed);
  const bool detached = detached_;
  wait_node* woken = nullptr;
  while (wait_node* n = joiners_.claim_front()) {
    n->next = woken;
    woken = n;
  }
  lock_.unlock();
  // A joiner may free this state as soon as the lock is released.
  while (woken != nullptr) {
    wait_node* following = woken->next;
    unpark(*woken->who);
    woken = following;
  }
  return detached;
}

wake task_state::join(deadline until) {
  lock_.lock();
  if (finished_) {
    lock_.unlock();
    tsan_acquire(this);
    return wake::fired;
  }
  waiter& self = this_waiter();
  if (until <= now()) {
    lock_.unlock();
    return wake::timed_out;
  }
  if (!begin_wait(self)) {
    lock_.unlock();
    throw_cancelled();
  }
  wait_node node;
  node.who = &self;
  joiners_.push_back(node);
  const wake how = park(self, lock_, {"task join", this}, until);
  if (how != wake::fired) {
    lock_.lock();
    joiners_.remove(node);
    const bool finished = finished_;
    lock_.unlock();
    if (how == wake::cancelled) throw_cancelled();
    if (!finished) return wake::timed_out;
  }
  tsan_acquire(this);
  return wake::fired;
}

/// False: it has ended, or the wait was refused; resumed() knows.
bool task_state::suspend_until_finished(wait_node& node, std::coroutine_handle<> where) noexcept {
  stackless& self = this_async();
  lock_.lock();
  if (finished_) {
    lock_.unlock();
    return false;
  }
  if (!begin_wait(self)) {
    lock_.unlock();
    node.index = wait_node::refused;
    return false;
  }
  node.who = &self;
  joiners_.push_back(node);
  park(self, where, &lock_, {"task join", this});
  return true;
}

void task_state::resumed(wait_node& node) {
  end_await(node);
  if (node.who != nullptr && woken(*node.who) != wake::fired) {
    lock_.lock();
    joiners_.remove(node);
    lock_.unlock();
    throw_cancelled();
  }
  tsan_acquire(this);
}

void task_state::join_uncancellable() noexcept {
  const uncancellable guard;
  join(no_deadline);
}

bool task_state::finished() noexcept {
  lock_.lock();
  const bool yes = finished_;
  lock_.unlock();
  if (yes) tsan_acquire(this);
  return yes;
}

task_status task_state::status() noexcept {
  lock_.lock();
  task_status s = task_status::finished;
  if (!finished_) {
    const stackless* async = sleeper();
    const fiber* f = async != nullptr ? nullptr : reinterpret_cast<fiber*>(where_.load(std::memory_order_acquire));
    if (async != nullptr)
      s = async->status();
    else if (f == nullptr)
      s = task_status::queued;
    else if (waiter_access::state_of(f->wait) == waiter::waiting)
      s = task_status::blocked;
    else
      s = f->state.load(std::memory_order_relaxed) == run_state::queued ? task_status::queued : task_status::running;
  }
  lock_.unlock();
  return s;
}

void task_state::request_stop() {
  if (auto source = stop()) signal_stop(std::move(*source));
}

std::optional<std::stop_source> task_state::stop() noexcept {
  std::optional<std::stop_source> source;
  lock_.lock();
  if (!finished_) {
    stop_requested_.store(true, std::memory_order_relaxed);
    heavy_fence();  // pairs with the light one in begin(): the request, then where_
    if (stackless* async = sleeper())
      source = async->cancel();
    else if (auto* f = reinterpret_cast<fiber*>(where_.load(std::memory_order_acquire)))
      source = cancel_fiber(*f);
  }
  lock_.unlock();
  return source;
}

bool task_state::detach() noexcept {
  lock_.lock();
  const bool finished = finished_;
  detached_ = true;
  lock_.unlock();
  if (finished) tsan_acquire(this);
  return finished;
}

void throw_empty_task() {
  throw std::logic_error("coir: operation on an empty task (default, moved from, detached, or got)");
}

void end_detached(task_state& state) noexcept {
  try {
    std::rethrow_exception(state.error);
  } catch (const cancelled&) {
    return;  // a normal, silent end
  } catch (...) {
  }
  std::fprintf(
      stderr, "coir: an exception left a fiber: %s\ncoir: in fiber %llu, spawned at %s:%u, detached after it\n",
      describe(state.error).c_str(), static_cast<unsigned long long>(state.id().number()), state.file, state.line);
  std::fflush(stderr);
  std::terminate();
}

}  // namespace coir::detail
