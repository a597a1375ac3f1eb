// read() and readv(), of sockets and of other files that may make a caller wait.
#include <climits>

#include <poll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>

#include "fiber_call.hpp"
#include "receive.hpp"
#include "stream_file.hpp"

namespace coir::inline COIR_ABI::hooks {

namespace {

constinit original<::ssize_t(int, void*, std::size_t)> libc_read{"read"};
constinit original<::ssize_t(int, const ::iovec*, int)> libc_readv{"readv"};
constinit original<::ssize_t(int, void*, std::size_t, std::size_t)> libc_read_chk{"__read_chk"};

[[gnu::constructor]] void find_all() {
  libc_read.find();
  libc_readv.find();
  libc_read_chk.find();
}

constexpr long file_position = -1;

/// readv() of a file that is no socket, without blocking.
result try_read(int fd, const ::iovec* to, int n) {
  const result r = value_or_error(::syscall(SYS_preadv2, fd, to, n, file_position, file_position, RWF_NOWAIT));
  if (r != -EOPNOTSUPP && r != -ENOSYS) return r;
  const turn mine(fd);
  return is_ready(fd, POLLIN) ? value_or_error(libc_readv(fd, to, n)) : -EAGAIN;
}

}  // namespace

}  // namespace coir::hooks

using namespace coir::hooks;

#pragma GCC visibility push(default)
extern "C" {

::ssize_t read(int fd, void* to, std::size_t n) {
  const auto* const runtime = n != 0 ? fiber_runtime(fd) : nullptr;
  if (runtime == nullptr) return libc_read(fd, to, n);
  fiber_call call(*runtime, fd, io_way::read, "read");
  result r = call.perform([&] { return value_or_error(libc_recv(fd, to, n, MSG_DONTWAIT)); });
  if (r == -ENOTSOCK) {
    if (!stream_file(fd).may_wait()) return libc_read(fd, to, n);
    const ::iovec buffer{to, n};
    r = call.perform([&] { return try_read(fd, &buffer, 1); });
  }
  return call.done(r);
}

::ssize_t readv(int fd, const ::iovec* to, int n) {
  const auto* const runtime = n > 0 && n <= IOV_MAX ? fiber_runtime(fd) : nullptr;
  if (runtime == nullptr) return libc_readv(fd, to, n);
  fiber_call call(*runtime, fd, io_way::read, "readv");
  result r = call.perform([&] {
    ::msghdr message{};
    message.msg_iov = const_cast<::iovec*>(to);
    message.msg_iovlen = static_cast<std::size_t>(n);
    return value_or_error(libc_recvmsg(fd, &message, MSG_DONTWAIT));
  });
  if (r == -ENOTSOCK) {
    if (!stream_file(fd).may_wait()) return libc_readv(fd, to, n);
    r = call.perform([&] { return try_read(fd, to, n); });
  }
  return call.done(r);
}

// What a build with _FORTIFY_SOURCE calls instead.
::ssize_t __read_chk(int fd, void* to, std::size_t n, std::size_t room);
::ssize_t __read_chk(int fd, void* to, std::size_t n, std::size_t room) {
  return n > room ? libc_read_chk(fd, to, n, room) : ::read(fd, to, n);
}

}  // extern "C"
#pragma GCC visibility pop
