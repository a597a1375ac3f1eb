// The raw epoll loop with a stack for each connection, and nothing else: an event switches to the connection's stack,
// which reads, writes and switches back. So it is the least that a fiber for each connection can cost: no scheduler, no
// other threads, no cancellation, no deadlines.
//
//   net_stacks echo     prints "port N", then serves until it is killed
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

#include "descriptors.hpp"

namespace {

namespace context = boost::context;

constexpr std::size_t buffer_size = 256;
constexpr std::size_t stack_size = 256 * 1024;  // coir's default
constexpr int batch = 128;

void fail(const char* what) {
  std::perror(what);
  std::_Exit(1);
}

int listen_on_loopback() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&at), size) != 0 || ::listen(fd, 4096) != 0) fail("listen");
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0) fail("getsockname");
  std::printf("port %d\n", ntohs(at.sin_port));
  std::fflush(stdout);
  return fd;
}

/// A connection and what serves it. Lives until its function returns.
struct connection {
  explicit connection(int number)
      : fd(number),
        self(std::allocator_arg, context::protected_fixedsize_stack(stack_size), [this](context::fiber&& c) {
          loop = std::move(c);
          serve();
          is_over = true;
          return std::move(loop);
        }) {}

  void resume() { self = std::move(self).resume(); }

  void serve() {
    char buffer[buffer_size];
    for (;;) {
      const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
      if (n == 0 || (n < 0 && errno != EAGAIN)) return;
      for (ssize_t done = 0; done < n;) {
        const ssize_t sent = ::send(fd, buffer + done, static_cast<std::size_t>(n - done), MSG_NOSIGNAL);
        if (sent < 0) return;  // the load never fills the send buffer
        done += sent;
      }
      if (n == static_cast<ssize_t>(sizeof buffer) || (n > 0 && (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0))
        continue;
      loop = std::move(loop).resume();  // until the next event
    }
  }

  const int fd;
  std::uint32_t events = 0;
  bool is_over = false;
  context::fiber loop;
  context::fiber self;
};

void accept_all(int epoll, int listener) {
  for (;;) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    epoll_event e{};
    e.events = EPOLLIN | EPOLLRDHUP | EPOLLET;
    e.data.ptr = new connection(fd);
    if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) != 0) fail("epoll_ctl");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || std::strcmp(argv[1], "echo") != 0) {
    std::fprintf(stderr, "usage: %s echo\n", argv[0]);
    return 2;
  }
  bench::allow_many_descriptors();
  const int listener = listen_on_loopback();
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event e{};
  e.events = EPOLLIN;  // data.ptr is null: the listener
  if (epoll < 0 || ::epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &e) != 0) fail("epoll");
  for (;;) {
    epoll_event events[batch];
    const int n = ::epoll_wait(epoll, events, batch, -1);
    for (int i = 0; i < n; ++i) {
      auto* const c = static_cast<connection*>(events[i].data.ptr);
      if (c == nullptr) {
        accept_all(epoll, listener);
        continue;
      }
      c->events = events[i].events;
      c->resume();
      if (!c->is_over) continue;
      ::close(c->fd);
      delete c;
    }
  }
}
