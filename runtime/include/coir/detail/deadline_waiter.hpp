// The deadline of a coroutine's wait. (A fiber's is a part of park().) Not for users.
#pragma once

#include <atomic>
#include <cstdint>

#include <coir/detail/abi.hpp>
#include <coir/detail/alarm.hpp>
#include <coir/detail/early_claim.hpp>
#include <coir/detail/park.hpp>
#include <coir/detail/spin_lock.hpp>

namespace coir::inline COIR_ABI::detail {

/// Turns a deadline into the claim of a coroutine that sleeps. It is armed early, since an alarm needs memory and
/// perhaps a thread. It has to get them before a lock is held, for which others would spin, and before the wait has
/// begun. Coroutine: arm() with no lock held; begin_wait(); look(); park; settle() with no lock held.
class deadline_waiter {
 public:
  /// Throws std::bad_alloc, std::system_error.
  void arm(waiter& self, deadline until) {
    claim_.prepare(self);
    alarm_.arm(until, &fire, this);
  }

  /// True: the deadline has come before; do not sleep.
  bool look(std::uint64_t word) noexcept { return claim_.look(word); }

  /// Called after the wait, or instead of it, unless the deadline has ended the wait: then the claim was the alarm's
  /// last touch. Nothing touches this object after it.
  void settle() noexcept {
    if (!alarm_.disarm())
      for (backoff wait; !over_.load(std::memory_order_acquire);) wait();
  }

 private:
  static void fire(void* arg, std::uint64_t) noexcept {
    auto* const self = static_cast<deadline_waiter*>(arg);
    if (!self->claim_.end_wait(waiter::timed_out))
      self->over_.store(true, std::memory_order_release);  // pairs with settle(); the last touch
  }

  alarm alarm_;
  early_claim claim_;
  std::atomic<bool> over_{false};
};

}  // namespace coir::detail
