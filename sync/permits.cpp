#include <coir/permits.hpp>

namespace coir::detail {

/// Under the lock: the permits that are free, and from now on nobody else changes that.
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

bool permits::acquire_contended(count n, deadline until) {
  waiters_.lock();
  if (const count free = seize(); waiters_.empty() && n <= free) {
    leave(free - n);
    return true;
  }
  node self;
  self.wanted = n;
  const wake how = waiters_.wait(self, {what_, this}, until);
  if (how == wake::fired) return true;
  count free = seize();
  wake_list wakes;
  grant(free, wakes);  // this one may have been all that held up those behind it
  leave(free);
  wakes.unpark_all();
  if (how == wake::cancelled) throw_cancelled();
  return false;
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
  waiters_.lock();
  const bool result = !waiters_.empty() || free_of(word_.load(std::memory_order_relaxed)) < 1;
  waiters_.unlock();
  return result;
}

void permits::grant(count& free, wake_list& wakes) noexcept {
  while (wait_node* first = waiters_.front()) {
    const count wanted = static_cast<node*>(first)->wanted;
    if (wanted > free) return;
    if (waiters_.claim(*first, wakes)) free -= wanted;
  }
}

}  // namespace coir::detail
