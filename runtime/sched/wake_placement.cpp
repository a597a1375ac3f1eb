#include "sched/wake_placement.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

// The bare system calls: ThreadSanitizer sees what libc's functions write, and does not see the idle set's lock.

void wake_placement::keep_off_this_cpu(int thread_id) noexcept {
  if (thread_id == 0 || displaced_) return;
  const int here = ::sched_getcpu();
  if (here < 0 || here >= CPU_SETSIZE) return;
  CPU_ZERO(&own_);
  if (::syscall(SYS_sched_getaffinity, thread_id, sizeof own_, &own_) <= 0) return;
  if (!CPU_ISSET(here, &own_) || CPU_COUNT(&own_) < 2) return;
  cpu_set_t others = own_;
  CPU_CLR(here, &others);
  displaced_ = ::syscall(SYS_sched_setaffinity, thread_id, sizeof others, &others) == 0;
}

[[gnu::noinline]] void wake_placement::put_back() noexcept {
  displaced_ = false;
  ::syscall(SYS_sched_setaffinity, 0, sizeof own_, &own_);
}

}  // namespace coir::detail
