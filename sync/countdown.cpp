#include <coir/countdown.hpp>

#include <stdexcept>
#include <string>

namespace coir::detail {

void countdown::add_contended(count_type n) {
  backoff pause;
  count_type seen = word_.load(std::memory_order_relaxed);
  for (;;) {
    if (seen == waiting) {
      pause();
      seen = word_.load(std::memory_order_relaxed);
    } else if (n > max - (seen >> 1)) {
      throw std::length_error(std::string("coir: the count is too large: ") + what_);
    } else if (word_.compare_exchange_weak(seen, seen + n * one, std::memory_order_relaxed)) {
      return;
    }
  }
}

void countdown::finish(count_type before, count_type n) {
  if ((before >> 1) < n) {
    word_.fetch_add(n * one, std::memory_order_relaxed);
    throw std::logic_error(std::string("coir: negative count: ") + what_);
  }
  release_all();
}

/// The word is "0, waiting", and this is the only call that can end that.
void countdown::release_all() noexcept {
  lock_.lock();
  wait_node* first = nullptr;
  wait_node** end = &first;
  while (wait_node* node = waiters_.claim_front()) {
    node->next = nullptr;
    *end = node;
    end = &node->next;
  }
  lock_.unlock();
  // release: pairs with the acquire of those who find the word 0 (the subtracts before are in its release sequence).
  word_.fetch_and(~waiting, std::memory_order_release);
  while (first != nullptr) {  // who is unparked takes its node away
    wait_node* node = first;
    first = first->next;
    unpark(*node->who);
  }
}

void countdown::wait_contended() {
  waiter& self = this_waiter();
  wait_node node;
  node.who = &self;
  backoff pause;
  for (;;) {
    count_type seen = word_.load(std::memory_order_acquire);
    if (seen == 0) return;
    if ((seen >> 1) > 0) {
      lock_.lock();
      seen = word_.load(std::memory_order_relaxed);
      while ((seen >> 1) > 0 && (seen & waiting) == 0) {
        // relaxed: whoever acts on the bit takes the lock first.
        if (word_.compare_exchange_weak(seen, seen | waiting, std::memory_order_relaxed)) break;
      }
      if ((seen >> 1) > 0) break;
      lock_.unlock();
    }
    pause();  // being released (or, for an instant, below zero by a mistaken call)
  }
  // From here the count may reach zero, but the releaser needs lock_.
  if (!begin_wait(self)) {
    stop_waiting(node);
    throw_cancelled();
  }
  waiters_.push_back(node);
  if (park(self, lock_, {what_, this}) == wake::fired) return;
  lock_.lock();
  stop_waiting(node);
  throw_cancelled();
}

/// Under lock_, which it releases. Returns when no releaser can be relying on this waiter to keep the countdown alive.
void countdown::stop_waiting(wait_node& node) noexcept {
  waiters_.remove(node);
  count_type seen = word_.load(std::memory_order_relaxed);
  while (waiters_.empty() && (seen >> 1) > 0 && (seen & waiting) != 0) {
    // relaxed: whoever acts on the bit takes the lock first.
    if (word_.compare_exchange_weak(seen, seen & ~waiting, std::memory_order_relaxed)) {
      seen &= ~waiting;
      break;
    }
  }
  lock_.unlock();
  if ((seen & waiting) == 0) return;
  // Others may be queued still, and the last subtract may come at any time from now on: they are not our concern. But if it
  // has come, its releaser may be anywhere between its subtraction and its last touch.
  if ((seen >> 1) == 0) {
    backoff pause;
    while (word_.load(std::memory_order_acquire) == waiting) pause();
  }
}

}  // namespace coir::detail
