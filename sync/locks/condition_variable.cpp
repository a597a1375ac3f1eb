#include <coir/condition_variable.hpp>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI {

/// A waiter that was notified on its way to sleep, or that timed out meanwhile, takes the list's lock once more. The
/// destructor waits for that.
condition_variable::~condition_variable() {
  detail::backoff pause;
  for (;;) {
    waiters_.lock();
    const bool unused = departing_ == 0;
    waiters_.unlock();
    if (unused) break;
    if (this_fiber::is_fiber()) {
      const uncancellable guard;
      yield();  // the fiber that it waits for may be in its own run queue
    } else {
      pause();
    }
  }
  waiters_.check_unused("condition_variable", this);
}

void condition_variable::notify_one() noexcept {
  detail::decide(detail::operation::notify, this);
  detail::wake_list wakes;
  waiters_.lock();
  wake_first(wakes);
  waiters_.unlock();
  wakes.unpark_all();
}

void condition_variable::notify_all() noexcept {
  detail::decide(detail::operation::notify, this);
  detail::wake_list wakes;
  waiters_.lock();
  while (detail::wait_node* first = waiters_.front()) wake(*static_cast<entry*>(first), wakes);
  waiters_.unlock();
  wakes.unpark_all();
}

void condition_variable::enlist(entry& e, bool stoppable) noexcept {
  waiters_.lock();
  waiters_.push_back(e);
  if (stoppable) {
    e.link.lock();
    e.where = this;
    e.link.unlock();
  }
  waiters_.unlock();
}

/// The waiter does not wait after all. If it has got a notification, that goes to another waiter.
void condition_variable::withdraw(entry& e) noexcept {
  detail::wake_list wakes;
  waiters_.lock();
  waiters_.remove(e);
  leave(e);
  if (e.popped) --departing_;
  if (e.chosen) wake_first(wakes);
  waiters_.unlock();
  wakes.unpark_all();
}

bool condition_variable::sleep::enter() noexcept {
  on_->waiters_.lock();
  if (entry_->popped) {
    static_cast<void>(leave(detail::wake::fired));
    return true;
  }
  entry_->asleep = true;
  return false;
}

detail::wake condition_variable::sleep::leave(detail::wake how) noexcept {
  condition_variable::leave(*entry_);
  if (entry_->popped) --on_->departing_;
  on_->waiters_.unlock();
  return how;
}

/// Under the lock.
void condition_variable::wake_first(detail::wake_list& wakes) noexcept {
  while (detail::wait_node* first = waiters_.front()) {
    auto& e = *static_cast<entry*>(first);
    if (wake(e, wakes)) {
      e.chosen = e.popped;
      return;
    }
  }
}

/// Under the lock: unlinks the entry; false if its owner is no longer to be woken.
bool condition_variable::wake(entry& e, detail::wake_list& wakes) noexcept {
  leave(e);
  if (e.asleep && waiters_.claim(e, wakes)) return true;
  waiters_.remove(e);
  e.popped = true;
  ++departing_;
  return !e.asleep;
}

/// Under the lock: no stop callback reaches this object through the entry any more.
void condition_variable::leave(entry& e) noexcept {
  if (e.where == nullptr) return;
  e.link.lock();
  e.where = nullptr;
  e.link.unlock();
}

/// The entry exists as long as its stop callback.
void condition_variable::wake_stopped(entry& e) noexcept {
  detail::wake_list wakes;
  for (detail::backoff pause;; pause()) {
    e.link.lock();
    condition_variable* const here = e.where;
    const bool locked = here != nullptr && here->waiters_.try_lock();
    e.link.unlock();
    if (here == nullptr) return;
    if (!locked) continue;
    here->wake(e, wakes);
    here->waiters_.unlock();
    wakes.unpark_all();
    return;
  }
}

}  // namespace coir
