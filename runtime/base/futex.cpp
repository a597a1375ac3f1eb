#include "base/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>
#include <climits>
#include <ctime>

#include <coir/detail/abi.hpp>

#include "base/report.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

std::uint32_t* address(std::atomic<std::uint32_t>& word) {
  static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
  return reinterpret_cast<std::uint32_t*>(&word);
}

}  // namespace

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, deadline until) noexcept {
  timespec t{};
  t.tv_sec = until / 1'000'000'000;
  t.tv_nsec = until % 1'000'000'000;
  // WAIT_BITSET takes an absolute CLOCK_MONOTONIC time, so that an interrupted wait does not start anew.
  const long r = ::syscall(SYS_futex, address(word), FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected,
                           until == no_deadline ? nullptr : &t, nullptr, FUTEX_BITSET_MATCH_ANY);
  if (r == -1 && errno != EAGAIN && errno != EINTR && errno != ETIMEDOUT) fatal("futex wait failed, errno ", errno);
}

void futex_wake(std::atomic<std::uint32_t>& word, int count) noexcept {
  ::syscall(SYS_futex, address(word), FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, nullptr, nullptr, 0);
}

}  // namespace coir::detail
