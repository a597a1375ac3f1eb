// An alarm keeps a scope's deadline. It may ring while the scope is being closed. So the two share a separate object,
// and the last of them frees it:
//
//   scope opens     target = the fiber's waiter; the alarm is armed
//   alarm rings     under the lock, if there is a target: expired = true, and expire(target). So between the two the
//                   scope cannot close, and its fiber cannot go on to its next wait unnoticed
//   scope closes    disarmed in time: the alarm will never ring, and the state is the scope's alone. Otherwise, under
//                   the lock, target = null: the alarm rings in vain from now on. If it has expired: forget_expiry()
//
// So a waiter is expired and forgotten equally often, and is never touched after its scope has gone.
#include <coir/timeout.hpp>

#include <atomic>

#include <coir/detail/abi.hpp>
#include <coir/detail/start_record.hpp>

namespace coir::inline COIR_ABI::detail {

struct timeout_state {
  explicit timeout_state(waiter& w) noexcept : target(&w) {}

  void release() noexcept {
    // acq_rel: the last has seen the other's use.
    if (references.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy_record(this);
  }

  static void ring(void* arg, std::uint64_t) noexcept {
    auto& state = *static_cast<timeout_state*>(arg);
    waiter* claimed = nullptr;
    announce_acquire(state.lock);  // of what came before arm()
    state.lock.lock();
    if (state.target != nullptr) {
      state.expired = true;
      if (expire(*state.target)) claimed = state.target;
    }
    state.lock.unlock();
    if (claimed != nullptr) unpark(*claimed);  // it sleeps until then
    state.release();
  }

  spin_lock lock;  // before what expire() waits out: a switch; guards:
  waiter* target;
  bool expired = false;
  std::atomic<int> references{2};
};

timeout_scope::timeout_scope(deadline when) : self_(this_waiter()) {
  if (when <= now()) {
    expired_ = true;
    static_cast<void>(expire(self_));  // it is awake
    return;
  }
  state_ = make_record<timeout_state>(self_);
  announce_release(state_->lock);
  try {
    alarm_.arm(when, &timeout_state::ring, state_);
  } catch (...) {
    destroy_record(state_);
    throw;
  }
}

void timeout_scope::close() noexcept {
  if (closed_) return;
  closed_ = true;
  if (state_ != nullptr) {
    if (alarm_.disarm()) return destroy_record(state_);
    state_->lock.lock();
    state_->target = nullptr;
    expired_ = state_->expired;
    state_->lock.unlock();
    state_->release();
  }
  if (expired_) forget_expiry(self_);
}

}  // namespace coir::detail
