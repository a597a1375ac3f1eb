#include "io_refusals.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstddef>
#include <type_traits>

#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

namespace faults {

namespace {

struct io_refusal {
  std::atomic<int> error{0};
  std::atomic<int> fd{-1};
  std::atomic<int> skip{0};
  std::atomic<int> times{0};
  std::atomic<int> refused{0};
  std::atomic<int> made{0};
  std::atomic<void*> real{nullptr};
};

std::array<io_refusal, static_cast<std::size_t>(io_call::count)> refusals;

io_refusal& of(io_call what) { return refusals[static_cast<std::size_t>(what)]; }

/// 0: it is not refused.
int refusal_of(io_call what, int fd) {
  io_refusal& r = of(what);
  ++r.made;
  if (r.times.load() <= 0 || (r.fd.load() >= 0 && r.fd.load() != fd) || r.skip.fetch_sub(1) > 0) return 0;
  if (r.times.fetch_sub(1) <= 0) return 0;
  ++r.refused;
  return r.error;
}

template <class Function>
Function* real(io_call what, const char* name) {
  std::atomic<void*>& place = of(what).real;
  if (place.load() == nullptr) place = ::dlsym(RTLD_NEXT, name);
  return reinterpret_cast<Function*>(place.load());
}

/// For functions that return -1 and set errno.
template <class Result, class... Args>
Result call_unless_refused(io_call what, const char* name, int fd, Args... args) {
  if (const int error = refusal_of(what, fd); error != 0) {
    errno = error;
    return Result{-1};
  }
  return real<Result(Args...)>(what, name)(args...);
}

}  // namespace

void refuse_io(io_call what, int error, int times, int skip, int fd) {
  io_refusal& r = of(what);
  r.times = 0;
  r.error = error;
  r.fd = fd;
  r.refused = 0;
  r.skip = skip;
  r.times = times;
}

int refused(io_call what) { return of(what).refused; }
int made(io_call what) { return of(what).made; }

void refuse_no_io() {
  for (io_refusal& r : refusals) r.times = 0;
}

/// By syscall() in refusals.cpp.
int refusal_of_pidfd_open() { return refusal_of(io_call::pidfd_open, -1); }

}  // namespace faults

using faults::call_unless_refused;
using faults::io_call;

// NOLINTBEGIN: the C library's own names and signatures
extern "C" {

ssize_t read(int fd, void* to, size_t n) { return call_unless_refused<ssize_t>(io_call::read, "read", fd, fd, to, n); }
ssize_t readv(int fd, const iovec* to, int n) {
  return call_unless_refused<ssize_t>(io_call::readv, "readv", fd, fd, to, n);
}
ssize_t recv(int fd, void* to, size_t n, int flags) {
  return call_unless_refused<ssize_t>(io_call::recv, "recv", fd, fd, to, n, flags);
}
ssize_t recvfrom(int fd, void* to, size_t n, int flags, sockaddr* from, socklen_t* size) {
  return call_unless_refused<ssize_t>(io_call::recvfrom, "recvfrom", fd, fd, to, n, flags, from, size);
}
ssize_t write(int fd, const void* from, size_t n) {
  return call_unless_refused<ssize_t>(io_call::write, "write", fd, fd, from, n);
}
ssize_t writev(int fd, const iovec* from, int n) {
  return call_unless_refused<ssize_t>(io_call::writev, "writev", fd, fd, from, n);
}
ssize_t send(int fd, const void* from, size_t n, int flags) {
  return call_unless_refused<ssize_t>(io_call::send, "send", fd, fd, from, n, flags);
}
ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  return call_unless_refused<ssize_t>(io_call::sendmsg, "sendmsg", fd, fd, message, flags);
}
ssize_t sendto(int fd, const void* from, size_t n, int flags, const sockaddr* to, socklen_t size) {
  return call_unless_refused<ssize_t>(io_call::sendto, "sendto", fd, fd, from, n, flags, to, size);
}
ssize_t sendfile(int to, int from, off_t* offset, size_t n) noexcept {
  return call_unless_refused<ssize_t>(io_call::sendfile, "sendfile", to, to, from, offset, n);
}
int accept4(int fd, sockaddr* peer, socklen_t* size, int flags) {
  return call_unless_refused<int>(io_call::accept4, "accept4", fd, fd, peer, size, flags);
}
int connect(int fd, const sockaddr* to, socklen_t size) {
  return call_unless_refused<int>(io_call::connect, "connect", fd, fd, to, size);
}
int socket(int family, int type, int protocol) noexcept {
  return call_unless_refused<int>(io_call::socket, "socket", -1, family, type, protocol);
}
int socketpair(int family, int type, int protocol, int both[2]) noexcept {
  return call_unless_refused<int>(io_call::socketpair, "socketpair", -1, family, type, protocol, both);
}
int bind(int fd, const sockaddr* at, socklen_t size) noexcept {
  return call_unless_refused<int>(io_call::bind, "bind", fd, fd, at, size);
}
int listen(int fd, int backlog) noexcept {
  return call_unless_refused<int>(io_call::listen, "listen", fd, fd, backlog);
}
int setsockopt(int fd, int level, int option, const void* value, socklen_t size) noexcept {
  return call_unless_refused<int>(io_call::setsockopt, "setsockopt", fd, fd, level, option, value, size);
}
int getsockname(int fd, sockaddr* address, socklen_t* size) noexcept {
  return call_unless_refused<int>(io_call::getsockname, "getsockname", fd, fd, address, size);
}
int getpeername(int fd, sockaddr* address, socklen_t* size) noexcept {
  return call_unless_refused<int>(io_call::getpeername, "getpeername", fd, fd, address, size);
}
int shutdown(int fd, int how) noexcept { return call_unless_refused<int>(io_call::shutdown, "shutdown", fd, fd, how); }
int poll(pollfd* fds, nfds_t n, int timeout) {
  return call_unless_refused<int>(io_call::poll, "poll", -1, fds, n, timeout);
}
int ppoll(pollfd* fds, nfds_t n, const timespec* timeout, const sigset_t* mask) {
  return call_unless_refused<int>(io_call::ppoll, "ppoll", -1, fds, n, timeout, mask);
}
int epoll_create1(int flags) noexcept {
  return call_unless_refused<int>(io_call::epoll_create1, "epoll_create1", -1, flags);
}
int epoll_ctl(int epoll, int what, int fd, epoll_event* event) noexcept {
  return call_unless_refused<int>(io_call::epoll_ctl, "epoll_ctl", fd, epoll, what, fd, event);
}
int epoll_wait(int epoll, epoll_event* events, int n, int timeout) {
  return call_unless_refused<int>(io_call::epoll_wait, "epoll_wait", epoll, epoll, events, n, timeout);
}
int epoll_pwait2(int epoll, epoll_event* events, int n, const timespec* timeout, const sigset_t* mask) {
  return call_unless_refused<int>(io_call::epoll_pwait2, "epoll_pwait2", epoll, epoll, events, n, timeout, mask);
}
int eventfd(unsigned count, int flags) noexcept {
  return call_unless_refused<int>(io_call::eventfd, "eventfd", -1, count, flags);
}
int pipe2(int ends[2], int flags) noexcept {
  return call_unless_refused<int>(io_call::pipe2, "pipe2", -1, ends, flags);
}
int fcntl(int fd, int what, ...) {
  va_list list;
  va_start(list, what);
  const long arg = va_arg(list, long);
  va_end(list);
  if (const int error = faults::refusal_of(io_call::fcntl, fd); error != 0) {
    errno = error;
    return -1;
  }
  return faults::real<int(int, int, ...)>(io_call::fcntl, "fcntl")(fd, what, arg);
}
int fstat(int fd, struct stat* to) noexcept { return call_unless_refused<int>(io_call::fstat, "fstat", fd, fd, to); }
int posix_spawnp(pid_t* id, const char* file, const posix_spawn_file_actions_t* actions,
                 const posix_spawnattr_t* attributes, char* const arguments[], char* const environment[]) {
  if (const int error = faults::refusal_of(io_call::posix_spawnp, -1); error != 0) return error;
  return faults::real<decltype(::posix_spawnp)>(io_call::posix_spawnp, "posix_spawnp")(id, file, actions, attributes,
                                                                                       arguments, environment);
}
int waitid(idtype_t type, id_t id, siginfo_t* info, int flags) {
  return call_unless_refused<int>(io_call::waitid, "waitid", -1, type, id, info, flags);
}
int getaddrinfo(const char* host, const char* service, const addrinfo* hints, addrinfo** found) {
  if (const int error = faults::refusal_of(io_call::getaddrinfo, -1); error != 0) {
    errno = EIO;  // for EAI_SYSTEM
    return error;
  }
  return faults::real<int(const char*, const char*, const addrinfo*, addrinfo**)>(io_call::getaddrinfo, "getaddrinfo")(
      host, service, hints, found);
}
int sigaction(int signal, const struct sigaction* wanted, struct sigaction* before) noexcept {
  return call_unless_refused<int>(io_call::sigaction, "sigaction", signal, signal, wanted, before);
}

}  // extern "C"
// NOLINTEND
