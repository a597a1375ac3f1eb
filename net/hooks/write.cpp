// write() and writev(), to sockets and to other files that may make a caller wait. On a pipe or stream socket in
// blocking mode they return when all is written.
#include <algorithm>
#include <climits>
#include <numeric>
#include <span>

#include <poll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>

#include "fiber_call.hpp"
#include "io_vector.hpp"
#include "send.hpp"
#include "stream_file.hpp"

namespace coir::inline COIR_ABI::hooks {

namespace {

constinit original<::ssize_t(int, const void*, std::size_t)> libc_write{"write"};
constinit original<::ssize_t(int, const ::iovec*, int)> libc_writev{"writev"};

[[gnu::constructor]] void find_all() {
  libc_write.find();
  libc_writev.find();
}

constexpr long file_position = -1;

std::size_t bytes_of(std::span<const ::iovec> buffers) noexcept {
  return std::accumulate(buffers.begin(), buffers.end(), std::size_t{0},
                         [](std::size_t sum, const ::iovec& each) { return sum + each.iov_len; });
}

/// Once poll() has said that a pipe can be written to, it takes PIPE_BUF bytes without blocking.
result write_some_to_pipe(int fd, std::span<const ::iovec> from) {
  if (bytes_of(from) <= PIPE_BUF) return value_or_error(libc_writev(fd, from.data(), static_cast<int>(from.size())));
  const auto first = std::find_if(from.begin(), from.end(), [](const ::iovec& each) { return each.iov_len != 0; });
  if (first != from.begin())
    return value_or_error(libc_writev(fd, from.data(), static_cast<int>(first - from.begin())));
  return value_or_error(libc_write(fd, first->iov_base, std::min<std::size_t>(first->iov_len, PIPE_BUF)));
}

/// writev() to a file that is no socket, without blocking.
result try_write(int fd, bool is_pipe, std::span<const ::iovec> from) {
  const result r =
      value_or_error(::syscall(SYS_pwritev2, fd, from.data(), from.size(), file_position, file_position, RWF_NOWAIT));
  if (r != -EOPNOTSUPP && r != -ENOSYS) return r;
  const turn mine(fd);
  if (!is_ready(fd, POLLOUT)) return -EAGAIN;
  return is_pipe ? write_some_to_pipe(fd, from)
                 : value_or_error(libc_writev(fd, from.data(), static_cast<int>(from.size())));
}

result write_to_file(fiber_call& call, int fd, bool is_pipe, io_vector buffers) {
  result written = 0;
  for (;;) {
    const result r = call.perform([&] { return try_write(fd, is_pipe, {buffers.data(), buffers.size()}); });
    if (r < 0) return written != 0 ? written : r;
    written += r;
    buffers.advance(static_cast<std::size_t>(r));
    if (buffers.empty() || !is_pipe) return written;
  }
}

}  // namespace

}  // namespace coir::hooks

using namespace coir::hooks;

#pragma GCC visibility push(default)
extern "C" {

::ssize_t write(int fd, const void* from, std::size_t n) {
  const auto* const runtime = n != 0 ? fiber_runtime(fd) : nullptr;
  if (runtime == nullptr) return libc_write(fd, from, n);
  fiber_call call(*runtime, fd, io_way::write, "write");
  ::iovec buffer{const_cast<void*>(from), n};
  ::msghdr message{};
  message.msg_iov = &buffer;
  message.msg_iovlen = 1;
  result r = send_all(call, fd, message, 0);
  if (r == -ENOTSOCK) {
    const stream_file file(fd);
    if (!file.may_wait()) return libc_write(fd, from, n);
    r = write_to_file(call, fd, file.is_pipe(), io_vector(&buffer, 1));
  }
  return call.done(r);
}

::ssize_t writev(int fd, const ::iovec* from, int n) {
  const auto* const runtime = n > 0 && n <= IOV_MAX ? fiber_runtime(fd) : nullptr;
  if (runtime == nullptr) return libc_writev(fd, from, n);
  fiber_call call(*runtime, fd, io_way::write, "writev");
  ::msghdr message{};
  message.msg_iov = const_cast<::iovec*>(from);
  message.msg_iovlen = static_cast<std::size_t>(n);
  result r = send_all(call, fd, message, 0);
  if (r == -ENOTSOCK) {
    const stream_file file(fd);
    if (!file.may_wait()) return libc_writev(fd, from, n);
    r = write_to_file(call, fd, file.is_pipe(), io_vector(from, static_cast<std::size_t>(n)));
  }
  return call.done(r);
}

}  // extern "C"
#pragma GCC visibility pop
