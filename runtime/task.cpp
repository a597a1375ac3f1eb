#include <coir/task.hpp>

#include <coir/async.hpp>
#include <coir/detail/abi.hpp>
#include <coir/detail/early_claim.hpp>
#include <coir/detail/local_table.hpp>
#include <coir/detail/queued_wait.hpp>
#include <coir/detail/stackless.hpp>
#include <coir/this_fiber.hpp>

#include "base/asymmetric_fence.hpp"
#include "base/immortal.hpp"
#include "base/report.hpp"
#include "base/sanitizer.hpp"
#include "fiber/waiter_access.hpp"
#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI::detail {

task_state::task_state(entry f, source_location where) noexcept : start_record(f, where), id_(new_fiber_id().number()) {
  note_id(id_);
}

void task_state::belongs_to(stackless& s) noexcept {
  where_.store(reinterpret_cast<std::uintptr_t>(&s) | of_stackless, std::memory_order_relaxed);
}

/// Under lock_. Null: it is no stackless.
stackless* task_state::sleeper() const noexcept {
  const std::uintptr_t at = where_.load(std::memory_order_relaxed);
  return (at & of_stackless) != 0 ? reinterpret_cast<stackless*>(at & ~of_stackless) : nullptr;
}

void task_state::begin() noexcept {
  fiber& self = *current_fiber();
  self.id = id_;
  where_.store(reinterpret_cast<std::uintptr_t>(&self), std::memory_order_release);
  light_fence();  // pairs with the heavy one in stop(): where_, then the request
  if (stop_requested_.load(std::memory_order_relaxed)) waiter_access::set_for_good(self.wait);
}

namespace {

/// Under the task's lock. (The claim may have to wait until a select has been switched away from. That switch does not
/// need this lock.)
bool claim(wait_node& joiner) noexcept {
  if (joiner.slot == nullptr) [[likely]]
    return joiner.who->claim(joiner);
  return static_cast<early_claim*>(joiner.slot)->claim(waiter::fired, &joiner);
}

}  // namespace

bool task_state::finish() noexcept {
  if (current_fiber()->locals != nullptr) [[unlikely]]
    end_locals();  // as a thread's thread_locals end before it is joined
  tsan_release(this);
  lock_.lock();
  finished_ = true;
  where_.store(0, std::memory_order_relaxed);
  const bool detached = detached_;
  wait_node* woken = nullptr;
  while (wait_node* n = joiners_.front()) {
    joiners_.remove(*n);
    if (!claim(*n)) continue;
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

bool task_state::end_wait::enter() noexcept {
  of_->lock_.lock();
  if (!of_->finished_) return false;
  of_->lock_.unlock();
  return true;
}

wake task_state::end_wait::leave(wake how) noexcept {
  const bool finished = of_->finished_;
  of_->lock_.unlock();
  return how == wake::timed_out && finished ? wake::fired : how;
}

wake task_state::end_wait::outcome(wake how) const {
  if (how == wake::cancelled) throw_cancelled();
  if (how == wake::fired) tsan_acquire(of_);
  return how;
}

wake task_state::join(deadline until) {
  decide(operation::join, this);
  end_wait wait(*this);
  return wait.outcome(block(wait, until));
}

void task_state::notify(wait_node& node, early_claim& of) noexcept {
  lock_.lock();
  node.slot = &of;
  if (!finished_) joiners_.push_back(node);
  lock_.unlock();
}

void task_state::forget(wait_node& node) noexcept {
  lock_.lock();
  joiners_.remove(node);
  lock_.unlock();
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
  decide(operation::look_at_task, this);
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
  decide(operation::stop_task, this);
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
  decide(operation::stop_task, this);
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

namespace {

/// Whether the calling fiber is cancelled for good, and may be told. Its runtime may be being cancelled, and not have
/// come to this fiber yet.
bool is_being_cancelled() noexcept {
  const fiber* self = current_fiber();
  return self != nullptr && !waiter_access::is_uncancellable(self->wait) &&
         (waiter_access::is_for_good(self->wait) || self->home->cancelling());
}

}  // namespace

// It is marked too, as the cancelling of the runtime will do when it comes to this fiber. A joiner that asks why the
// fiber ended must not think that it has thrown `cancelled` on its own.
void throw_if_being_cancelled() {
  if (!is_being_cancelled()) return;
  waiter_access::set_for_good(current_fiber()->wait);
  throw_cancelled();
}

// When a whole tree of fibers is cancelled, or a deadlock unwound, the fibers below end first. A `go` fiber that has
// joined one of them is to end in silence, as if it had been told before its child. A task_cancelled would end the
// process.
void throw_task_cancelled() {
  throw_if_being_cancelled();
  throw task_cancelled(immortal<task_cancelled>());
}

void rethrow_failure(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const cancelled&) {
  }
  throw_task_cancelled();
}

void end_detached(task_state& state) noexcept {
  if (const worker* const w = current_worker(); w != nullptr && w->home->explored_by() != nullptr) {
    try {
      std::rethrow_exception(state.error);
    } catch (const cancelled&) {
    } catch (...) {
      w->home->explored_by()->failed(state.error);
    }
    return;
  }
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
