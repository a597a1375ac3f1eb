// A call that a fiber makes on a descriptor. It is tried without blocking. If it would block, the fiber parks until the
// descriptor is ready, and tries again. So the fiber may be on another thread afterwards.
//
// errno belongs to the thread. Attempts return what the system returns, or -errno. Only done() writes errno, on the
// thread that the fiber ends up on. (No function here reads errno before and after a park, because the compiler would
// use the address of the first thread's errno for both.)
//
// After an attempt has said EAGAIN, the call asks whether the program has put the descriptor into non-blocking mode.
// Nothing is remembered about a number, because it may be closed and given out again at any time.
#pragma once

#include <cerrno>
#include <cstddef>
#include <ctime>

#include <poll.h>
#include <pthread.h>
#include <sys/types.h>

#include <coir/detail/abi.hpp>

#include "runtime_link.hpp"

namespace coir::inline COIR_ABI::hooks {

/// What a call returns, or -errno.
using result = ::ssize_t;

/// Converts what a function of the C library has just returned.
result value_or_error(::ssize_t returned) noexcept;

/// Whether poll() finds something of `events` right now, or an error or hang-up.
bool is_ready(int fd, short events);

/// Blocks the thread, where the runtime cannot park its fiber. False: the deadline has come.
bool wait_as_thread(const hook_services& runtime, const ::pollfd* fds, std::size_t n, deadline until);

/// Sets errno on the thread that the caller is on by now, and returns -1; or sets it to `before` and returns r.
::ssize_t returned(result r, int before) noexcept;

/// Whether it is a time as the system takes it, or null.
constexpr bool is_valid(const ::timespec* time) noexcept {
  return time == nullptr || (time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < 1'000'000'000);
}

/// now + a valid time, without overflow.
deadline after(const hook_services& runtime, const ::timespec& time) noexcept;

class fiber_call {
 public:
  /// `what`: for reports; has static storage.
  fiber_call(const hook_services& runtime, int fd, io_way way, const char* what) noexcept;

  /// Calls attempt() until it says something else than -EAGAIN. -EAGAIN: the descriptor is in non-blocking mode, or the
  /// time that the socket allows (SO_RCVTIMEO, SO_SNDTIMEO) is over, counted from the first park. -ECANCELED: the fiber
  /// was cancelled.
  template <class Attempt>
  result perform(Attempt attempt) {
    for (;;) {
      look();
      const result r = attempt();
      if (r != -EAGAIN) return r;
      if (const int error = sleep(); error != 0) return -error;
    }
  }

  /// What perform() does in its loop, for callers with a loop of their own. Before an attempt:
  void look() noexcept { seen_ = runtime_.edges(fd_, way_); }

  /// After an attempt has said -EAGAIN: 0, try again; or the error, as perform() says.
  int sleep();

  /// The same, but sleeps for at most that time, whatever the descriptor does.
  int sleep_for(const ::timespec& time);

  /// What the call returns to the program. errno is what it was before, or the error.
  ::ssize_t done(result r) const noexcept { return returned(r, errno_before_); }

 private:
  void begin_wait() noexcept;

  const hook_services& runtime_;
  const int fd_;
  const io_way way_;
  const char* const what_;
  const int errno_before_;
  std::uint32_t seen_ = 0;
  bool waits_ = false;    // begin_wait() has been called
  bool blocking_ = true;  // the mode of the descriptor
  deadline until_ = no_deadline;
};

/// For calls that cannot be told not to block. While an object lives, no other fiber makes such a call on that
/// descriptor, so that what poll() has said of it stays true. (Plain threads and other processes may still come
/// between. Then the call blocks its thread, as it does without this library.) Nothing parks meanwhile.
class turn {
 public:
  explicit turn(int fd) noexcept;
  ~turn();
  turn(const turn&) = delete;
  turn& operator=(const turn&) = delete;

 private:
  ::pthread_mutex_t& mutex_;
};

}  // namespace coir::hooks
