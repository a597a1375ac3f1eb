#include <coir/detail/permits.hpp>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

/// Under the lock: returns the permits that are free. From now on no other thread changes that number.
permits::count permits::seize() noexcept {
  // acq_rel: the caller may take what others have released, and hand it on.
  return free_of(word_.fetch_or(contended, std::memory_order_acq_rel));
}

/// Unlocks. So many permits are free now.
void permits::leave(count free) noexcept {
  // release: as that of release(), for all whose permits these were.
  word_.store(word_of(free) | (waiters_.empty() ? 0 : contended), std::memory_order_release);
  waiters_.unlock();
}

bool permits::try_acquire_contended(count n) noexcept {
  waiters_.lock();
  const count free = seize();
  const bool now = waiters_.empty() && n <= free;
  leave(now ? free - n : free);
  return now;
}

bool permits::request::enter() noexcept {
  from_->waiters_.lock();
  const count free = from_->seize();
  if (!from_->waiters_.empty() || wanted_ > free) return false;
  from_->leave(free - wanted_);
  return true;
}

wake permits::request::leave(wake how) noexcept {
  count free = from_->seize();
  wake_list wakes;
  from_->grant(free, wakes);  // this one may have been all that held up those behind it
  from_->leave(free);
  wakes.unpark_all();
  return how;
}

bool permits::acquire_contended(count n, deadline until) {
  request self(*this, n);
  const wake how = block(self, until);
  if (how == wake::cancelled) throw_cancelled();
  return how == wake::fired;
}

bool permits::release_contended(count n, count least_free) noexcept {
  wake_list wakes;
  waiters_.lock();
  count free = seize();
  const bool right = fits(n, free, least_free);
  if (right) {
    free += n;
    grant(free, wakes);
  }
  leave(free);
  wakes.unpark_all();
  return right;
}

bool permits::exhausted() noexcept {
  decide(operation::acquire, this);
  waiters_.lock();
  const bool result = !waiters_.empty() || free_of(word_.load(std::memory_order_relaxed)) < 1;
  waiters_.unlock();
  return result;
}

void permits::grant(count& free, wake_list& wakes) noexcept {
  while (wait_node* first = waiters_.front()) {
    const count wanted = static_cast<request*>(first)->wanted_;
    if (wanted > free) return;
    if (waiters_.claim(*first, wakes)) free -= wanted;
  }
}

}  // namespace coir::detail
