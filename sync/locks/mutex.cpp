// The slow paths of lock() and unlock(). mutex.hpp describes the bits.
//
// Rejected: always hand over to a sleeper. The mutex stands still until the sleeper runs, which costs a switch or, on
// another processor, many microseconds. The running fibers could have used it a thousand times meanwhile.
// Why `woken`: without it each unlock would wake another waiter, and all of them would find the mutex taken.
// Why `granted`: a woken fiber may have to wait for its processor, on which the frequent locker itself may be running.
#include <coir/mutex.hpp>

#include <stdexcept>
#include <thread>

#include <coir/detail/abi.hpp>
#include <coir/runtime.hpp>
#include <coir/this_fiber.hpp>

namespace coir::inline COIR_ABI {
namespace {

constexpr detail::deadline starving_after = 1'000'000;  // ns

inline void pause_processor() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

/// With one processor the owner cannot be running, so to spin for it is in vain.
bool owner_may_be_running() noexcept {
  static const bool many_cpus = std::thread::hardware_concurrency() != 1;
  return many_cpus && (!this_fiber::is_fiber() || runtime::current().processors() > 1);
}

}  // namespace

bool mutex::lock_contended(detail::deadline until) {
  if (spin(false)) return true;
  detail::waiter& self = detail::this_waiter();
  const detail::lock_wait not_interrupted(self);
  detail::mutex_waiter node;
  node.since = detail::now();
  bool was_woken = false;
  for (;;) {
    const bool expired = until != detail::no_deadline && until <= (was_woken ? detail::now() : node.since);
    queue_lock_.lock();
    if (take_or_announce(was_woken)) {
      queue_lock_.unlock();
      return true;
    }
    if (expired) {
      forget_queued_if_empty();
      queue_lock_.unlock();
      return false;
    }
    detail::wait_queue& queue = was_woken ? again_ : waiters_;
    const detail::wake how = detail::park_in({queue_lock_, queue}, node, {"mutex lock", this}, until);
    if (how != detail::wake::fired) {
      queue_lock_.lock();
      queue.remove(node);
      forget_queued_if_empty();
      queue_lock_.unlock();
      if (how == detail::wake::cancelled) detail::throw_cancelled();
      return false;
    }
    if (node.ok) return true;  // handed over
    was_woken = true;
    if (spin(true)) return true;
  }
}

// ---- coroutines ----------------------------------------------------------------------------------------------------

bool detail::handed_over_lock::enter() noexcept {
  node_.since = now();
  of().queue_lock_.lock();
  if (!of().take_or_announce(false)) return false;
  of().queue_lock_.unlock();
  return true;
}

detail::wake detail::handed_over_lock::leave(wake how) noexcept {
  of().forget_queued_if_empty();
  of().queue_lock_.unlock();
  return how;
}

// ---- the word ------------------------------------------------------------------------------------------------------

/// Whether the mutex is free, or was granted to this waiter.
bool mutex::may_take(std::uint32_t seen, bool was_woken) noexcept {
  return (seen & held) == 0 || (was_woken && (seen & granted) != 0);
}

/// Spins a little until the owner unlocks. It looks ever less often, because each look takes the cache line from the
/// owner.
bool mutex::spin(bool was_woken) noexcept {
  if (!owner_may_be_running()) return false;
  const std::uint32_t clear = was_woken ? of_woken : 0;
  for (unsigned rounds = 4; rounds <= 64; rounds *= 2) {
    for (unsigned i = 0; i < rounds; ++i) pause_processor();
    std::uint32_t seen = state_.load(std::memory_order_relaxed);
    // acquire: pairs with the release of the unlock before.
    if (may_take(seen, was_woken) &&
        state_.compare_exchange_strong(seen, (seen | held) & ~clear, std::memory_order_acquire,
                                       std::memory_order_relaxed))
      return true;
  }
  return false;
}

/// Under queue_lock_: takes the mutex (true), or tells its owner that a waiter will be queued (false). Either way the
/// woken waiter is back.
bool mutex::take_or_announce(bool was_woken) noexcept {
  const std::uint32_t clear = was_woken ? of_woken : 0;
  std::uint32_t seen = state_.load(std::memory_order_relaxed);
  for (;;) {
    const bool free = may_take(seen, was_woken);
    const std::uint32_t next = (seen | (free ? held : queued)) & ~clear;
    // acquire: pairs with the release of the unlock before.
    if (state_.compare_exchange_weak(seen, next, std::memory_order_acquire, std::memory_order_relaxed)) return free;
  }
}

/// Under queue_lock_.
void mutex::forget_queued_if_empty() noexcept {
  // relaxed: the bit only says where to look, under the lock.
  if (again_.empty() && waiters_.empty()) state_.fetch_and(~queued, std::memory_order_relaxed);
}

void mutex::unlock_contended(std::uint32_t seen) {
  for (;;) {
    if ((seen & held) == 0 || (seen & granted) != 0) throw std::logic_error("coir: unlock of an unlocked mutex");
    if ((seen & woken) != 0) {
      std::uint32_t next = (seen & ~held) + tick;
      if ((seen & ticks) == ticks) {  // look at the clock
        const bool starving = detail::now() - woken_since_ > starving_after;
        next = starving ? held | granted | (seen & queued) : seen & ~(held | ticks);
      }
      // release: pairs with the acquire of the lock to come.
      if (state_.compare_exchange_weak(seen, next, std::memory_order_release, std::memory_order_relaxed)) return;
      continue;
    }
    if ((seen & queued) == 0) {
      if (state_.compare_exchange_weak(seen, seen & ~held, std::memory_order_release, std::memory_order_relaxed))
        return;
      continue;
    }
    queue_lock_.lock();
    detail::wait_node* node = again_.claim_front();
    if (node == nullptr) node = waiters_.claim_front();
    if (node != nullptr) {
      const std::uint32_t rest = again_.empty() && waiters_.empty() ? 0 : queued;
      const auto& waiter = *static_cast<detail::mutex_waiter*>(node);
      woken_since_ = waiter.since;
      node->ok = waiter.slot != nullptr || detail::now() - woken_since_ > starving_after;
      // The waiter cannot leave lock() before its unpark, so the mutex outlives the two stores.
      // release: pairs with the acquire of the lock to come; a mutex handed over goes by the claim and the unpark.
      state_.store(rest | (node->ok ? held : woken), std::memory_order_release);
      queue_lock_.unlock();
      detail::unpark(*node->who);
      return;
    }
    // All waiters have given up. As soon as queue_lock_ is free, they may be gone, and the mutex with its next owner.
    // So the word is freed last.
    forget_queued_if_empty();
    queue_lock_.unlock();
    seen = state_.load(std::memory_order_relaxed);
  }
}

}  // namespace coir
