#include <coir/detail/system_calls.hpp>

#include <coir/detail/abi.hpp>

#include <cerrno>
#include <csignal>
#include <ctime>

#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

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

}  // namespace

size read(int fd, void* to, std::size_t n) noexcept { return result(::read(fd, to, n)); }
size readv(int fd, const ::iovec* to, int n) noexcept { return result(::readv(fd, to, n)); }
size receive(int fd, void* to, std::size_t n) noexcept { return result(::recv(fd, to, n, 0)); }

size receive_from(int fd, void* to, std::size_t n, ::sockaddr* from, unsigned* from_size) noexcept {
  return result(::recvfrom(fd, to, n, 0, from, from_size));
}

size send(int fd, const void* from, std::size_t n) noexcept { return result(::send(fd, from, n, MSG_NOSIGNAL)); }

size sendv(int fd, const ::iovec* from, int n) noexcept {
  ::msghdr message{};
  message.msg_iov = const_cast<::iovec*>(from);
  message.msg_iovlen = static_cast<std::size_t>(n);
  return result(::sendmsg(fd, &message, MSG_NOSIGNAL));
}

size send_to(int fd, const void* from, std::size_t n, const ::sockaddr* to, unsigned to_size) noexcept {
  return result(::sendto(fd, from, n, MSG_NOSIGNAL, to, to_size));
}

size write_pipe(int fd, const void* from, std::size_t n) noexcept {
  without_sigpipe guard;
  return guard.done(::write(fd, from, n));
}

size writev_pipe(int fd, const ::iovec* from, int n) noexcept {
  without_sigpipe guard;
  return guard.done(::writev(fd, from, n));
}

size send_file(int to, int from, ::off_t& offset, std::size_t n) noexcept {
  // sendfile() has no flag against the signal either, even for sockets.
  without_sigpipe guard;
  return guard.done(::sendfile(to, from, &offset, n));
}

size accept(int fd, ::sockaddr* peer, unsigned* peer_size) noexcept {
  return result(::accept4(fd, peer, peer_size, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

size connect(int fd, const ::sockaddr* to, unsigned to_size) noexcept { return result(::connect(fd, to, to_size)); }

}  // namespace coir::detail::system_calls
