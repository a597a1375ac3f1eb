// connect(). It cannot be told not to block for one call. So the socket is put into non-blocking mode for the length of
// one system call, and back. For some microseconds fcntl(F_GETFL) shows that.
//
// A fiber that is cancelled, or whose time (SO_SNDTIMEO) is over, leaves the attempt to the kernel. The kernel carries
// it on, as after a signal.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <coir/detail/abi.hpp>

#include "backoff.hpp"
#include "fiber_call.hpp"
#include "original.hpp"

namespace coir::inline COIR_ABI::hooks {

namespace {

constinit original<int(int, const ::sockaddr*, ::socklen_t)> libc_connect{"connect"};

[[gnu::constructor]] void find_all() { libc_connect.find(); }

/// The flags of a socket in blocking mode. -1: it is in non-blocking mode, or no socket.
int flags_if_blocking(int fd) noexcept {
  int type = 0;
  ::socklen_t size = sizeof type;
  if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0) return -1;
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_NONBLOCK) == 0 ? flags : -1;
}

result connect_at_once(int fd, int flags, const ::sockaddr* to, ::socklen_t to_size) {
  if (::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) return value_or_error(-1);
  const result r = value_or_error(libc_connect(fd, to, to_size));
  ::fcntl(fd, F_SETFL, flags);
  return r;
}

/// How an attempt that is under way has ended; -EAGAIN: it has not.
result outcome(int fd) {
  if (!is_ready(fd, POLLOUT)) return -EAGAIN;
  int error = 0;
  ::socklen_t size = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return value_or_error(-1);
  return -error;
}

result connect_fiber(fiber_call& call, int fd, int flags, const ::sockaddr* to, ::socklen_t to_size) {
  result r = 0;
  // EAGAIN: the queue of a local listener is full. poll() does not tell when it has room.
  for (backoff pause; (r = connect_at_once(fd, flags, to, to_size)) == -EAGAIN;)
    if (const int error = call.sleep_for(pause.next()); error != 0) return -error;
  if (r != -EINPROGRESS && r != -EALREADY) return r;
  r = call.perform([&] { return outcome(fd); });
  return r == -EAGAIN ? -EINPROGRESS : r;
}

}  // namespace

}  // namespace coir::hooks

using namespace coir::hooks;

#pragma GCC visibility push(default)
extern "C" {

int connect(int fd, const ::sockaddr* to, ::socklen_t to_size) {
  const auto* const runtime = fiber_runtime(fd);
  const int flags = runtime != nullptr ? flags_if_blocking(fd) : -1;
  if (flags < 0) return libc_connect(fd, to, to_size);
  fiber_call call(*runtime, fd, io_way::write, "connect");
  return static_cast<int>(call.done(connect_fiber(call, fd, flags, to, to_size)));
}

}  // extern "C"
#pragma GCC visibility pop
