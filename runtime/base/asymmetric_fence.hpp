// A pair of fences for protocols with a hot and a cold side (Dekker's pattern: each side stores its own word, then
// loads the other's; at least one of them must see the other's store). The hot side pays a compiler barrier, the cold
// side a system call: membarrier(PRIVATE_EXPEDITED), which runs a full fence on every CPU where this process is
// running. Where the kernel refuses membarrier, both sides are real fences.
#pragma once

#include <atomic>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

/// True once membarrier is known to be refused. Written before the first runtime starts a thread.
extern std::atomic<bool> membarrier_refused;

/// Registers with the kernel; any number of times, from any thread.
void register_asymmetric_fence() noexcept;

/// In assembly: GCC's ThreadSanitizer refuses std::atomic_thread_fence, and a call in the middle of a hot function
/// would make it save registers.
[[gnu::always_inline]] inline void full_fence() noexcept {
#if defined(__x86_64__)
  asm volatile("lock orq $0, (%%rsp)" ::: "memory", "cc");  // quicker than mfence
#elif defined(__aarch64__)
  asm volatile("dmb ish" ::: "memory");
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

[[gnu::always_inline]] inline void light_fence() noexcept {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  // relaxed: set before any thread that may take part exists
  if (membarrier_refused.load(std::memory_order_relaxed)) [[unlikely]]
    full_fence();
}

void heavy_fence() noexcept;

}  // namespace coir::detail
