#include <coir/detail/system_calls.hpp>

#include <cerrno>
#include <csignal>
#include <ctime>

#include <fcntl.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>

#include "simulated_calls.hpp"

namespace coir::inline COIR_ABI::detail::system_calls {

namespace {

size result(::ssize_t n) noexcept { return n >= 0 ? n : -errno; }

/// While an object lives, a write to a pipe without a reader raises no SIGPIPE in this thread. write() has no flag for
/// that.
class without_sigpipe {
 public:
  without_sigpipe() noexcept {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~without_sigpipe() {
    const int error = errno;
    if (broken_ && !was_pending_) {
      constexpr ::timespec no_time{};
      while (::sigtimedwait(&pipe_, nullptr, &no_time) < 0 && errno == EINTR) {
      }
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  without_sigpipe(const without_sigpipe&) = delete;
  without_sigpipe& operator=(const without_sigpipe&) = delete;

  size done(::ssize_t n) noexcept {
    const size r = result(n);
    broken_ = r == -EPIPE;
    return r;
  }

 private:
  ::sigset_t pipe_;
  ::sigset_t before_;
  bool was_pending_ = false;
  bool broken_ = false;
};

[[maybe_unused]] size read_simulated(int fd, void* to, std::size_t n) noexcept {
  const ::iovec all{to, n};
  return simulated_calls::read(fd, {&all, 1});
}

[[maybe_unused]] size write_simulated(int fd, const void* from, std::size_t n) noexcept {
  const ::iovec all{const_cast<void*>(from), n};
  return simulated_calls::write(fd, {&all, 1});
}

}  // namespace

// ---- sockets

size socket(int family, int type) noexcept {
  if constexpr (explorable)
    if (exploring()) return simulated_calls::socket(family, type);
  return result(::socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

size socket_pair(int (&ends)[2]) noexcept {
  if constexpr (explorable)
    if (exploring()) return simulated_calls::socket_pair(ends);
  return result(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends));
}

size pipe(int (&ends)[2]) noexcept {
  if constexpr (explorable)
    if (exploring()) return simulated_calls::pipe(ends);
  return result(::pipe2(ends, O_CLOEXEC | O_NONBLOCK));
}

size accept(int fd) noexcept {
  if constexpr (explorable)
    if (is_simulated(fd)) return simulated_calls::accept(fd);
  return result(::accept4(fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

size bind(int fd, const ::sockaddr* at, unsigned size_of_at) noexcept {
  if constexpr (explorable)
    if (is_simulated(fd)) return simulated_calls::bind(fd, at, size_of_at);
  return result(::bind(fd, at, size_of_at));
}

size listen(int fd, int backlog) noexcept {
  if constexpr (explorable)
    if (is_simulated(fd)) return simulated_calls::listen(fd, backlog);
  return result(::listen(fd, backlog));
}

size connect(int fd, const ::sockaddr* to, unsigned size_of_to) noexcept {
  if constexpr (explorable)
    if (is_simulated(fd)) return simulated_calls::connect(fd, to, size_of_to);
  return result(::connect(fd, to, size_of_to));
}

size shut_down(int fd, int how) noexcept {
  if constexpr (explorable)
    if (is_simulated(fd)) return simulated_calls::shut_down(fd, how);
  return result(::shutdown(fd, how));
}

size set_option(int fd, int level, int option, int value) noexcept {
  if constexpr (explorable)
    if (is_simulated(fd)) return simulated_calls::set_option(fd, level, option, value);
  return result(::setsockopt(fd, level, option, &value, sizeof value));
}

size local_address(int fd, ::sockaddr* into, unsigned* size_of_into) noexcept {
  if constexpr (explorable)
    if (is_simulated(fd)) return simulated_calls::local_address(fd, into, size_of_into);
  return result(::getsockname(fd, into, size_of_into));
}

size peer_address(int fd, ::sockaddr* into, unsigned* size_of_into) noexcept {
  if constexpr (explorable)
    if (is_simulated(fd)) return simulated_calls::peer_address(fd, into, size_of_into);
  return result(::getpeername(fd, into, size_of_into));
}

void remove_file(const ::sockaddr* at, [[maybe_unused]] unsigned size_of_at) noexcept {
  if constexpr (explorable)
    if (exploring()) return simulated_calls::remove_file(at, size_of_at);
  ::unlink(reinterpret_cast<const ::sockaddr_un*>(at)->sun_path);
}

bool is_ready(int fd, io_way way) noexcept {
  if constexpr (explorable)
    if (is_simulated(fd)) return simulated_calls::is_ready(fd, way);
  const short wanted = way == io_way::read ? POLLIN | POLLRDHUP : POLLOUT;
  ::pollfd one{fd, wanted, 0};
  return ::poll(&one, 1, 0) > 0;
}

// ---- reading

size read(int fd, void* to, std::size_t n) noexcept {
  if constexpr (explorable)
    if (is_simulated(fd)) return read_simulated(fd, to, n);
  return result(::read(fd, to, n));
}

size readv(int fd, const ::iovec* to, int n) noexcept {
  if constexpr (explorable)
    if (is_simulated(fd)) return simulated_calls::read(fd, {to, static_cast<std::size_t>(n)});
  return result(::readv(fd, to, n));
}

size receive(int fd, void* to, std::size_t n) noexcept {
  if constexpr (explorable)
    if (is_simulated(fd)) return read_simulated(fd, to, n);
  return result(::recv(fd, to, n, 0));
}

size receive_from(int fd, void* to, std::size_t n, ::sockaddr* from, unsigned* from_size) noexcept {
  if constexpr (explorable)
    if (is_simulated(fd)) return simulated_calls::receive_from(fd, to, n, from, from_size);
  return result(::recvfrom(fd, to, n, 0, from, from_size));
}

// ---- writing

size send(int fd, const void* from, std::size_t n) noexcept {
  if constexpr (explorable)
    if (is_simulated(fd)) return write_simulated(fd, from, n);
  return result(::send(fd, from, n, MSG_NOSIGNAL));
}

size sendv(int fd, const ::iovec* from, int n) noexcept {
  if constexpr (explorable)
    if (is_simulated(fd)) return simulated_calls::write(fd, {from, static_cast<std::size_t>(n)});
  ::msghdr message{};
  message.msg_iov = const_cast<::iovec*>(from);
  message.msg_iovlen = static_cast<std::size_t>(n);
  return result(::sendmsg(fd, &message, MSG_NOSIGNAL));
}

size send_to(int fd, const void* from, std::size_t n, const ::sockaddr* to, unsigned to_size) noexcept {
  if constexpr (explorable)
    if (is_simulated(fd)) return simulated_calls::send_to(fd, from, n, to, to_size);
  return result(::sendto(fd, from, n, MSG_NOSIGNAL, to, to_size));
}

size write_pipe(int fd, const void* from, std::size_t n) noexcept {
  if constexpr (explorable)
    if (is_simulated(fd)) return write_simulated(fd, from, n);
  without_sigpipe guard;
  return guard.done(::write(fd, from, n));
}

size writev_pipe(int fd, const ::iovec* from, int n) noexcept {
  if constexpr (explorable)
    if (is_simulated(fd)) return simulated_calls::write(fd, {from, static_cast<std::size_t>(n)});
  without_sigpipe guard;
  return guard.done(::writev(fd, from, n));
}

size send_file(int to, int from, ::off_t& offset, std::size_t n) noexcept {
  if constexpr (explorable)
    if (is_simulated(to)) return simulated_calls::send_file(to, from, offset, n);
  // sendfile() has no flag against the signal either, even for sockets.
  without_sigpipe guard;
  return guard.done(::sendfile(to, from, &offset, n));
}

}  // namespace coir::detail::system_calls
