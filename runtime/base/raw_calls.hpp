// System calls past the C library's functions. The library may have other functions put before it (libcoir_hooks),
// which would park the calling fiber. So the runtime makes these calls directly where it may hold a lock, be inside its
// own bracket, or be in a signal handler, on a fiber's stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

/// As ::write and ::read: -1 and errno.
inline ::ssize_t raw_write(int fd, const void* from, std::size_t n) noexcept {
  return ::syscall(SYS_write, fd, from, n);
}
inline ::ssize_t raw_read(int fd, void* to, std::size_t n) noexcept { return ::syscall(SYS_read, fd, to, n); }

/// The thread sleeps, for less than a second; a signal may wake it earlier.
inline void raw_sleep(std::int64_t nanoseconds) noexcept {
  const ::timespec t{0, static_cast<long>(nanoseconds)};
  ::syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &t, nullptr);
}

}  // namespace coir::detail
