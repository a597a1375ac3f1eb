#include "asymmetric_fence.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace coir::detail {

std::atomic<bool> membarrier_refused{false};

namespace {

long membarrier(int command) { return ::syscall(SYS_membarrier, command, 0U, 0); }

}  // namespace

void register_asymmetric_fence() noexcept {
  static const bool accepted = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
  if (!accepted) membarrier_refused.store(true, std::memory_order_relaxed);
}

void full_fence() noexcept { std::atomic_thread_fence(std::memory_order_seq_cst); }

void heavy_fence() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!membarrier_refused.load(std::memory_order_relaxed)) membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace coir::detail
