/* The echo server that the others are compared with: one thread, one epoll, edge-triggered, nothing else.
 *
 *   net_epoll echo      prints "port N", then serves until it is killed
 *
 * It reads once for each event: a read that fills less than the buffer has drained the socket, and the next data comes
 * with an event of its own. So a request takes one read, one write and a share of an epoll_wait. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { buffer_size = 256, batch = 128 };

static void fail(const char* what) {
  perror(what);
  exit(1);
}

static int listen_on_loopback(void) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  if (fd < 0 || bind(fd, (struct sockaddr*)&at, size) != 0 || listen(fd, 4096) != 0) fail("listen");
  if (getsockname(fd, (struct sockaddr*)&at, &size) != 0) fail("getsockname");
  printf("port %d\n", ntohs(at.sin_port));
  fflush(stdout);
  return fd;
}

static void allow_many_descriptors(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

static void accept_all(int epoll, int listener) {
  for (;;) {
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.fd = fd};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) != 0) fail("epoll_ctl");
  }
}

/* 0: the connection is over. */
static int echo(int fd, uint32_t events) {
  char buffer[buffer_size];
  for (;;) {
    ssize_t n = recv(fd, buffer, sizeof buffer, 0);
    if (n < 0) return errno == EAGAIN;
    if (n == 0) return 0;
    for (ssize_t done = 0; done < n;) {
      ssize_t sent = send(fd, buffer + done, (size_t)(n - done), MSG_NOSIGNAL);
      if (sent < 0) return 0; /* the load never fills the send buffer */
      done += sent;
    }
    if (n < (ssize_t)sizeof buffer && (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == 0) return 1;
  }
}

int main(int argc, char** argv) {
  if (argc != 2 || strcmp(argv[1], "echo") != 0) {
    fprintf(stderr, "usage: %s echo\n", argv[0]);
    return 2;
  }
  allow_many_descriptors();
  int listener = listen_on_loopback();
  int epoll = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event e = {.events = EPOLLIN, .data.fd = listener};
  if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &e) != 0) fail("epoll");
  for (;;) {
    struct epoll_event events[batch];
    int n = epoll_wait(epoll, events, batch, -1);
    for (int i = 0; i < n; ++i) {
      int fd = events[i].data.fd;
      if (fd == listener)
        accept_all(epoll, fd);
      else if (!echo(fd, events[i].events))
        close(fd);
    }
  }
}
