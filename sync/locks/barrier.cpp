#include <coir/barrier.hpp>

#include <coir/detail/abi.hpp>

#include <stdexcept>

namespace coir::inline COIR_ABI::detail {

barrier_core::arrival barrier_core::arrive(count n, bool drop) {
  decide(operation::count_down, this);
  if (n <= 0) throw std::invalid_argument("coir: arrival at a barrier that is not positive");
  waiters_.lock();
  if (n > remaining_) {
    waiters_.unlock();
    throw std::logic_error("coir: more arrivals at a barrier than expected");
  }
  remaining_ -= n;
  if (drop) --expected_;
  const arrival result{phase_, remaining_ == 0};
  waiters_.unlock();
  return result;
}

void barrier_core::end_phase() noexcept {
  wake_list wakes;
  waiters_.lock();
  ++phase_;
  remaining_ = expected_;
  waiters_.claim_all(wakes);
  waiters_.unlock();
  wakes.unpark_all();
}

void barrier_core::wait(phase joined) {
  decide(operation::wait, this);
  phase_wait wait(*this, joined);
  if (block(wait) == wake::cancelled) throw_cancelled();
}

bool barrier_core::phase_wait::enter() noexcept {
  of_->waiters_.lock();
  // Every queued waiter waits for the present phase, since no other is under way.
  if (of_->phase_ == joined_) return false;
  of_->waiters_.unlock();
  return true;
}

wake barrier_core::phase_wait::leave(wake how) noexcept {
  of_->waiters_.unlock();
  return how;
}

}  // namespace coir::detail
