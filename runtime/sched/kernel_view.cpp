#include "sched/kernel_view.hpp"

#include <cstdio>
#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>

#include "sched/worker.hpp"

namespace coir::inline COIR_ABI::detail {

std::int64_t cpu_time_of(const worker& w) noexcept {
  timespec t{};
  if (w.thread_id.load(std::memory_order_acquire) == 0 || ::clock_gettime(w.cpu_clock, &t) != 0) return -1;
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// /proc/self/task/TID/stat is "TID (name) STATE ...". If it cannot be read (no /proc, no file descriptor left), the
// thread may only wait for a CPU. But to take its processor is less bad than to be stuck.
thread_state state_of(const worker& w) noexcept {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", w.thread_id.load(std::memory_order_relaxed));
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return thread_state::sleeping;
  char text[128];
  const ssize_t n = ::read(file, text, sizeof text - 1);
  ::close(file);
  if (n <= 0) return thread_state::sleeping;
  text[n] = '\0';
  const char* name_end = std::strrchr(text, ')');
  if (name_end == nullptr || name_end[1] == '\0') return thread_state::sleeping;
  switch (name_end[2]) {
    case 'S':
      return thread_state::sleeping;
    case 'D':
      return thread_state::uninterruptible;
    default:
      return thread_state::runnable;
  }
}

}  // namespace coir::detail
