// A one-byte lock for sections of a few dozen instructions. Locking costs one atomic exchange, unlocking a plain store.
// That is why it has no queue of sleepers: a contender spins, and after a while gives its time slice away, so that a
// holder that the operating system has descheduled can go on. It must never be held while user code runs, except for
// the moves of a channel's values (see chan.hpp). It must never be held across a switch of fibers, except in the park
// protocol, which unlocks it as the first act after the switch.
// Used by layers that ThreadSanitizer instruments and by those it does not: hence always_inline.
#pragma once

#include <atomic>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

/// Waits a little longer each time: pause instructions, then sched_yield, then short sleeps.
class backoff {
 public:
  void operator()() noexcept;

 private:
  unsigned rounds_ = 0;
};

class spin_lock {
 public:
  [[gnu::always_inline]] inline bool try_lock() noexcept {
    return !held_.load(std::memory_order_relaxed) && !held_.exchange(true, std::memory_order_acquire);
  }

  [[gnu::always_inline]] inline void lock() noexcept {
    // acquire: pairs with the release in unlock(), so that the section sees what earlier sections did.
    if (held_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      lock_contended();
  }

  [[gnu::always_inline]] inline void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  [[gnu::always_inline]] inline void lock_contended() noexcept {
    backoff wait;
    do {
      while (held_.load(std::memory_order_relaxed)) wait();
    } while (held_.exchange(true, std::memory_order_acquire));
  }

  std::atomic<bool> held_{false};
};

#if defined(__SANITIZE_THREAD__)
#define COIR_DETAIL_UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define COIR_DETAIL_UNDER_TSAN 1
#endif
#endif
#if defined(COIR_DETAIL_UNDER_TSAN)
#undef COIR_DETAIL_UNDER_TSAN
extern "C" void __tsan_release(void* address);  // NOLINT: the sanitizer's interface
extern "C" void __tsan_acquire(void* address);  // NOLINT

/// The caller holds a lock that another thread will release for it (park.hpp). ThreadSanitizer must be told here, since
/// it takes the unlock for the other thread's.
[[gnu::always_inline]] inline void announce_release(spin_lock& lock) noexcept { __tsan_release(&lock); }

/// The other half, where the ordering goes through the runtime (alarms), which ThreadSanitizer does not see.
[[gnu::always_inline]] inline void announce_acquire(spin_lock& lock) noexcept { __tsan_acquire(&lock); }

/// Releases a lock whose release was announced. ThreadSanitizer must not see it: it would count as the caller's release
/// and replace the announced one.
void unlock_unseen(spin_lock& lock) noexcept;
[[gnu::always_inline]] inline void unlock_announced(spin_lock& lock) noexcept { unlock_unseen(lock); }

/// What fibers have done on this thread happens before what follows. That is always so, but ThreadSanitizer is not told
/// at each switch, since that would hide races.
void acquire_own_thread() noexcept;
[[gnu::always_inline]] inline void announce_thread_order() noexcept { acquire_own_thread(); }
#else
[[gnu::always_inline]] inline void announce_release(spin_lock&) noexcept {}
[[gnu::always_inline]] inline void announce_acquire(spin_lock&) noexcept {}
[[gnu::always_inline]] inline void unlock_announced(spin_lock& lock) noexcept { lock.unlock(); }
[[gnu::always_inline]] inline void announce_thread_order() noexcept {}
#endif

}  // namespace coir::detail
