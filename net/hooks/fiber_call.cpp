#include "fiber_call.hpp"

#include <algorithm>
#include <climits>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <coir/detail/abi.hpp>

#include "poll.hpp"

namespace coir::inline COIR_ABI::hooks {

namespace {

constexpr std::int64_t second = 1'000'000'000;

bool is_blocking(int fd) noexcept {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_NONBLOCK) == 0;
}

/// The time that a call on a socket may take. Zero: any.
::timespec limit_of(int fd, io_way way) noexcept {
  ::timeval time{};
  ::socklen_t size = sizeof time;
  if (::getsockopt(fd, SOL_SOCKET, way == io_way::read ? SO_RCVTIMEO : SO_SNDTIMEO, &time, &size) != 0) return {};
  return {time.tv_sec, time.tv_usec * 1000};
}

}  // namespace

[[gnu::noinline]] result value_or_error(::ssize_t returned) noexcept {
  asm volatile("" ::: "memory");
  return returned >= 0 ? returned : -errno;
}

bool is_ready(int fd, short events) {
  ::pollfd one{fd, events, 0};
  return libc_poll(&one, 1, 0) > 0;
}

bool wait_as_thread(const hook_services& runtime, const ::pollfd* fds, std::size_t n, deadline until) {
  constexpr std::int64_t millisecond = 1'000'000;
  int time = -1;
  if (until != no_deadline) {
    const std::int64_t left = until - runtime.now();
    if (left <= 0) return false;
    time = static_cast<int>(std::min<std::int64_t>((left - 1) / millisecond + 1, INT_MAX));
  }
  libc_poll(const_cast<::pollfd*>(fds), n, time);
  return true;
}

[[gnu::noinline]] ::ssize_t returned(result r, int before) noexcept {
  asm volatile("" ::: "memory");
  errno = r < 0 ? static_cast<int>(-r) : before;
  return r < 0 ? -1 : r;
}

deadline after(const hook_services& runtime, const ::timespec& time) noexcept {
  const deadline now = runtime.now();
  const std::int64_t most = no_deadline - 1 - now;
  if (time.tv_sec > most / second - 1) return no_deadline - 1;
  return now + time.tv_sec * second + time.tv_nsec;
}

fiber_call::fiber_call(const hook_services& runtime, int fd, io_way way, const char* what) noexcept
    : runtime_(runtime), fd_(fd), way_(way), what_(what), errno_before_(errno) {}

void fiber_call::begin_wait() noexcept {
  if (waits_) return;
  waits_ = true;
  blocking_ = is_blocking(fd_);
  if (!blocking_) return;
  const ::timespec limit = limit_of(fd_, way_);
  if (limit.tv_sec != 0 || limit.tv_nsec != 0) until_ = after(runtime_, limit);
}

int fiber_call::sleep() {
  begin_wait();
  if (!blocking_) return EAGAIN;
  switch (runtime_.wait(fd_, way_, seen_, what_, until_)) {
    case hook_wake::ready:
      return 0;
    case hook_wake::timed_out:
      return EAGAIN;
    case hook_wake::cancelled:
      return ECANCELED;
    case hook_wake::unwatchable:
      break;
  }
  const ::pollfd one{fd_, static_cast<short>(way_ == io_way::read ? POLLIN : POLLOUT), 0};
  return wait_as_thread(runtime_, &one, 1, until_) ? 0 : EAGAIN;
}

int fiber_call::sleep_for(const ::timespec& time) {
  begin_wait();
  if (!blocking_ || until_ <= runtime_.now()) return EAGAIN;
  return runtime_.sleep(std::min(until_, after(runtime_, time))) == hook_wake::cancelled ? ECANCELED : 0;
}

namespace {

constexpr std::size_t turns = 64;  // descriptors that share one wait for each other now and then

constinit ::pthread_mutex_t mutexes[turns] = {};

}  // namespace

turn::turn(int fd) noexcept : mutex_(mutexes[static_cast<unsigned>(fd) % turns]) { ::pthread_mutex_lock(&mutex_); }

turn::~turn() { ::pthread_mutex_unlock(&mutex_); }

}  // namespace coir::hooks
