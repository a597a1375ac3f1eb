#include <coir/once.hpp>

namespace coir {

bool once::begin() {
  waiters_.lock();
  if (succeeded_) {
    waiters_.unlock();
    // succeed() has yet to touch done_: this caller must not return, and destroy the flag, before that.
    detail::backoff pause;
    while (!done_.load(std::memory_order_acquire)) pause();  // acquire: pairs with the release in succeed()
    return false;
  }
  if (!running_) {
    running_ = true;
    waiters_.unlock();
    return true;
  }
  detail::wait_node node;  // ok: it is this one's turn to do it
  if (waiters_.wait(node, {"call_once", this}) == detail::wake::fired) return node.ok;
  waiters_.unlock();
  detail::throw_cancelled();
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
