#include <coir/once.hpp>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI {

bool once::begin() {
  turn mine(*this);
  return mine.outcome(detail::block(mine));
}

bool once::turn::enter() noexcept {
  of_->waiters_.lock();
  if (of_->succeeded_) {
    of_->waiters_.unlock();
    // succeed() has yet to touch done_: this caller must not return, and destroy the flag, before that.
    detail::backoff pause;
    while (!of_->done_.load(std::memory_order_acquire)) pause();  // acquire: pairs with the release in succeed()
    return true;
  }
  if (of_->running_) return false;
  of_->running_ = true;
  of_->waiters_.unlock();
  ok = true;
  return true;
}

detail::wake once::turn::leave(detail::wake how) noexcept {
  of_->waiters_.unlock();
  return how;
}

bool once::turn::outcome(detail::wake how) const {
  if (how == detail::wake::cancelled) detail::throw_cancelled();
  return ok;  // set here, or by fail()
}

void once::succeed() noexcept {
  detail::wake_list wakes;
  waiters_.lock();
  succeeded_ = true;
  waiters_.claim_all(wakes);
  waiters_.unlock();
  // release: pairs with the acquire loads of done_.
  done_.store(true, std::memory_order_release);
  wakes.unpark_all();
}

void once::fail() noexcept {
  detail::wake_list wakes;
  waiters_.lock();
  detail::wait_node* heir = waiters_.claim_one(wakes);
  if (heir != nullptr)
    heir->ok = true;
  else
    running_ = false;
  waiters_.unlock();
  wakes.unpark_all();
}

}  // namespace coir
