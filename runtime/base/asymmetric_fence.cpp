#include "base/asymmetric_fence.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>

#include "base/report.hpp"

namespace coir::inline COIR_ABI::detail {

std::atomic<bool> membarrier_refused{false};

namespace {

long membarrier(int command) { return ::syscall(SYS_membarrier, command, 0U, 0); }

/// Ends the process if membarrier still fails. Real fences from now on are no way out: threads may have passed light
/// fences already that relied on this heavy one.
[[gnu::cold]] void insist() noexcept {
  membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return;
  fatal("the system call membarrier, which has worked until now, fails: error ", errno,
        "; if it is to be forbidden it must be before the first runtime");
}

}  // namespace

void register_asymmetric_fence() noexcept {
  static const bool accepted = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
  if (!accepted) membarrier_refused.store(true, std::memory_order_relaxed);
}

void heavy_fence() noexcept {
  if (exploring()) return;  // all that take part are on this thread
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!membarrier_refused.load(std::memory_order_relaxed) && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0)
    insist();
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace coir::detail
