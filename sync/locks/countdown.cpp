#include <coir/detail/countdown.hpp>

#include <coir/detail/abi.hpp>

#include <stdexcept>
#include <string>

namespace coir::inline COIR_ABI::detail {

void countdown::add_contended(count_type n) {
  backoff pause;
  count_type seen = word_.load(std::memory_order_relaxed);
  for (;;) {
    if (seen == waiting) {
      pause();
      seen = word_.load(std::memory_order_relaxed);
    } else if (n > max - (seen >> 1)) {
      throw std::length_error(std::string("coir: too large a count for a ") + what_);
    } else if (word_.compare_exchange_weak(seen, seen + n * one, std::memory_order_relaxed)) {
      return;
    }
  }
}

void countdown::throw_negative() const { throw std::logic_error(std::string("coir: negative ") + what_); }

/// The word is "0, waiting", and only this call can end that state.
void countdown::release_all() noexcept {
  wake_list wakes;
  waiters_.lock();
  waiters_.claim_all(wakes);
  waiters_.unlock();
  // release: pairs with the acquire of threads that find the word 0 (earlier subtracts are in its release sequence).
  word_.fetch_and(~waiting, std::memory_order_release);
  wakes.unpark_all();
}

void countdown::wait_contended() {
  zero_wait wait(*this);
  if (block(wait) == wake::cancelled) throw_cancelled();
}

bool countdown::zero_wait::enter() noexcept {
  std::atomic<count_type>& word = of_->word_;
  backoff pause;
  for (;;) {
    count_type seen = word.load(std::memory_order_acquire);
    if (seen == 0) return true;
    if ((seen >> 1) > 0) {
      of_->waiters_.lock();
      seen = word.load(std::memory_order_relaxed);
      while ((seen >> 1) > 0 && (seen & waiting) == 0) {
        // relaxed: a thread that acts on the bit takes the lock first.
        if (word.compare_exchange_weak(seen, seen | waiting, std::memory_order_relaxed)) break;
      }
      if ((seen >> 1) > 0) return false;  // from here on the count may reach zero, but the releaser needs the lock
      of_->waiters_.unlock();
    }
    pause();  // being released
  }
}

wake countdown::zero_wait::leave(wake how) noexcept {
  of_->stop_waiting();
  return how;
}

/// Under the lock, which it releases. Returns when no releaser relies on this waiter to keep the countdown alive.
void countdown::stop_waiting() noexcept {
  count_type seen = word_.load(std::memory_order_relaxed);
  while (waiters_.empty() && (seen >> 1) > 0 && (seen & waiting) != 0) {
    // relaxed: a thread that acts on the bit takes the lock first.
    if (word_.compare_exchange_weak(seen, seen & ~waiting, std::memory_order_relaxed)) seen &= ~waiting;
  }
  waiters_.unlock();
  // If the word is positive and still says waiting, others are queued, and keep the countdown alive as this one did. If
  // it is "0, waiting", its releaser may be anywhere between its subtraction and its last touch.
  backoff pause;
  while (seen == waiting) {
    pause();
    seen = word_.load(std::memory_order_acquire);
  }
}

}  // namespace coir::detail
