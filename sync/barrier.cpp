#include <coir/barrier.hpp>

#include <stdexcept>

namespace coir::detail {

barrier_core::arrival barrier_core::arrive(count n, bool drop) {
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
  waiters_.lock();
  // Everyone queued waits for the present phase, since no other is under way.
  if (phase_ == joined) {
    wait_node node;
    if (waiters_.wait(node, {"barrier wait", this}) == wake::fired) return;
    waiters_.unlock();
    throw_cancelled();
  }
  waiters_.unlock();
}

}  // namespace coir::detail
