#include <coir/detail/spin_lock.hpp>

#include <coir/detail/abi.hpp>

#include <sched.h>

#include "base/raw_calls.hpp"

namespace coir::inline COIR_ABI::detail {

// For instrumented sources; this one is not.
void unlock_unseen(spin_lock& lock) noexcept;
void unlock_unseen(spin_lock& lock) noexcept { lock.unlock(); }

void backoff::operator()() noexcept {
  ++rounds_;
  if (rounds_ < 64) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  } else if (rounds_ < 256) {
    ::sched_yield();  // the holder may be descheduled on this very core
  } else {
    raw_sleep(50'000);  // or on a core where we outrank it
  }
}

}  // namespace coir::detail
