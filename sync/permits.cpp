#include <coir/permits.hpp>

namespace coir::detail {

bool permits::try_acquire(count n) noexcept {
  waiters_.lock();
  const bool now = !must_wait(n);
  if (now) free_ -= n;
  waiters_.unlock();
  return now;
}

bool permits::acquire(count n, deadline until) {
  waiters_.lock();
  if (!must_wait(n)) {
    free_ -= n;
    waiters_.unlock();
    return true;
  }
  node self;
  self.wanted = n;
  const wake how = waiters_.wait(self, {what_, this}, until);
  if (how == wake::fired) return true;
  wake_list wakes;
  grant(wakes);  // this one may have been all that held up those behind it
  waiters_.unlock();
  wakes.unpark_all();
  if (how == wake::cancelled) throw_cancelled();
  return false;
}

bool permits::release(count n, count least_free) noexcept {
  wake_list wakes;
  waiters_.lock();
  const bool fits = free_ >= least_free && n <= total_ - free_;
  if (fits) {
    free_ += n;
    grant(wakes);
  }
  waiters_.unlock();
  wakes.unpark_all();
  return fits;
}

bool permits::exhausted() noexcept {
  waiters_.lock();
  const bool result = must_wait(1);
  waiters_.unlock();
  return result;
}

void permits::grant(wake_list& wakes) noexcept {
  while (wait_node* first = waiters_.front()) {
    const count wanted = static_cast<node*>(first)->wanted;
    if (wanted > free_) return;
    if (waiters_.claim(*first, wakes)) free_ -= wanted;
  }
}

}  // namespace coir::detail
