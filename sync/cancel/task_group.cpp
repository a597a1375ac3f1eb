#include <coir/task_group.hpp>

#include <stdexcept>

#include <coir/detail/abi.hpp>
#include <coir/this_fiber.hpp>

namespace coir::inline COIR_ABI {

void detail::group_child::end() noexcept {
  static_cast<void>(finish());  // from here on it cannot be cancelled
  std::exception_ptr failure = std::move(error);
  bool unwound = false;
  if (failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const cancelled&) {
      failure = nullptr;
      unwound = cancelled_for_good(this_waiter());  // otherwise the function has thrown it itself
    } catch (...) {
    }
  }
  if (failure) group_->child_failed(std::move(failure));
  group_->child_ended(*this, unwound);
  release();
}

task_group::~task_group() {
  stop();
  join_uncancellable();
}

void task_group::set_limit(std::size_t n) {
  detail::decide(detail::operation::release, this);
  if (n == 0) throw std::invalid_argument("coir: a task_group's limit is 0, which lets nothing run");
  detail::wake_list wakes;
  lock_.lock();
  limit_ = n;
  grant(wakes);
  lock_.unlock();
  wakes.unpark_all();
}

void task_group::wait() {
  detail::decide(detail::operation::join, this);
  join all(*this, "task_group wait");
  if (detail::block(all) == detail::wake::cancelled) {
    stop();
    join_uncancellable();
    detail::throw_cancelled();
  }
  rethrow_failure();
}

async<void> task_group::async_wait() {
  using awaiter = detail::queue_awaiter<join>;
  const detail::wake how = co_await awaiter(std::in_place, *this, "task_group wait");
  if (how == detail::wake::cancelled) {
    stop();
    const uncancellable guard;
    co_await awaiter(std::in_place, *this, "task_group end");
    detail::throw_cancelled();
  }
  rethrow_failure();
}

bool task_group::join::enter() noexcept {
  of_->lock_.lock();
  if (of_->running_ != 0) return false;
  of_->lock_.unlock();
  return true;
}

detail::wake task_group::join::leave(detail::wake how) noexcept {
  of_->lock_.unlock();
  return how;
}

void task_group::rethrow_failure() {
  lock_.lock();
  const std::exception_ptr error = error_;
  const bool undone = over_ || unwound_;
  lock_.unlock();
  if (error) std::rethrow_exception(error);
  if (undone) detail::throw_task_cancelled();
}

/// Takes the child over.
void task_group::start(detail::scheduler& where, detail::group_child& child) {
  detail::decide(detail::operation::spawn, this);
  bool admitted = false;
  try {
    admitted = admit(child);
  } catch (...) {
    child.release();
    throw;
  }
  if (admitted)
    detail::start(where, &child);
  else
    child.release();
  detail::decide(detail::operation::spawn, this);
}

/// Waits for a place and links the child. False: the group is over.
bool task_group::admit(detail::group_child& child) {
  lock_.lock();
  if (!over_ && (running_ >= limit_ || !spawners_.empty())) [[unlikely]] {
    detail::wait_node node;
    detail::wake_list wakes;
    if (detail::sleep_in({lock_, spawners_}, node, {"task_group spawn", this}) != detail::wake::fired) {
      grant(wakes);  // this one may have been all that held up those behind it
      lock_.unlock();
      wakes.unpark_all();
      detail::throw_cancelled();
    }
    if (!node.ok) return false;
    lock_.lock();
    if (over_) {  // since it was granted
      leave(wakes);
      lock_.unlock();
      wakes.unpark_all();
      return false;
    }
    link(child);
    lock_.unlock();
    return true;
  }
  const bool admitted = !over_;
  if (admitted) {
    ++running_;
    link(child);
  }
  lock_.unlock();
  return admitted;
}

// ---- under the lock ------------------------------------------------------------------------------------------------

void task_group::link(detail::group_child& child) noexcept {
  child.next_ = children_;
  if (children_ != nullptr) children_->previous_ = &child;
  children_ = &child;
}

void task_group::unlink(detail::group_child& child) noexcept {
  (child.previous_ != nullptr ? child.previous_->next_ : children_) = child.next_;
  if (child.next_ != nullptr) child.next_->previous_ = child.previous_;
}

/// Gives spawners the places that are free.
void task_group::grant(detail::wake_list& wakes) noexcept {
  while (running_ < limit_) {
    detail::wait_node* spawner = spawners_.claim_front();
    if (spawner == nullptr) return;
    spawner->ok = true;
    ++running_;
    wakes.add(*spawner);
  }
}

/// One less is running.
void task_group::leave(detail::wake_list& wakes) noexcept {
  --running_;
  grant(wakes);
  if (running_ != 0) return;
  while (detail::wait_node* joiner = joiners_.claim_front()) wakes.add(*joiner);
}

/// Returns the children to be stopped, each with a reference, if the group has not been ended already.
detail::group_child* task_group::end_group(detail::wake_list& wakes) noexcept {
  if (over_) return nullptr;
  over_ = true;
  while (detail::wait_node* spawner = spawners_.claim_front()) wakes.add(*spawner);
  detail::group_child* chain = nullptr;
  for (detail::group_child* c = children_; c != nullptr; c = c->next_) {
    c->references_.fetch_add(1, std::memory_order_relaxed);  // its fiber's is still there
    c->next_to_stop_ = std::exchange(chain, c);
  }
  return chain;
}

// ---- without it ----------------------------------------------------------------------------------------------------

void task_group::stop_all(detail::group_child* chain) noexcept {
  while (chain != nullptr) {
    detail::group_child* following = chain->next_to_stop_;
    chain->request_stop();
    chain->release();
    chain = following;
  }
}

void task_group::stop() noexcept {
  detail::wake_list wakes;
  lock_.lock();
  detail::group_child* chain = end_group(wakes);
  lock_.unlock();
  wakes.unpark_all();
  stop_all(chain);
}

void task_group::join_uncancellable() noexcept {
  const uncancellable guard;
  join all(*this, "task_group end");
  static_cast<void>(detail::block(all));
}

void task_group::child_failed(std::exception_ptr error) noexcept {
  detail::wake_list wakes;
  lock_.lock();
  if (!error_) error_ = std::move(error);
  detail::group_child* chain = end_group(wakes);
  lock_.unlock();
  wakes.unpark_all();
  stop_all(chain);
}

void task_group::child_ended(detail::group_child& child, bool unwound) noexcept {
  detail::wake_list wakes;
  lock_.lock();
  unwound_ = unwound_ || unwound;
  unlink(child);
  leave(wakes);
  lock_.unlock();
  wakes.unpark_all();
}

}  // namespace coir
