// The system calls of input and output, refused on demand with an error of choice: functions of the C library, as the
// layer net and the poller call them.
#pragma once

#include <cstdint>

namespace faults {

enum class io_call : std::uint8_t {
  read,
  readv,
  recv,
  recvfrom,
  write,
  writev,
  send,
  sendmsg,
  sendto,
  sendfile,
  accept4,
  connect,
  socket,
  socketpair,
  bind,
  listen,
  setsockopt,
  getsockname,
  getpeername,
  shutdown,
  poll,
  ppoll,
  epoll_create1,
  epoll_ctl,
  epoll_wait,
  epoll_pwait2,
  eventfd,
  pipe2,
  fcntl,
  fstat,
  posix_spawnp,  // returns the error
  waitid,
  pidfd_open,
  getaddrinfo,  // returns the error, one of EAI_; errno is EIO
  sigaction,
  count
};

/// The next `times` calls fail with `error`, after `skip` that do not. `fd`: only those on that descriptor.
void refuse_io(io_call what, int error, int times = 1, int skip = 0, int fd = -1);

/// How many calls were refused since.
int refused(io_call what);

/// How many calls there were, refused or not, since the program began.
int made(io_call what);

void refuse_no_io();

}  // namespace faults
