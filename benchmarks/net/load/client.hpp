// One connection of the load: sends 64 bytes, reads 64 bytes, in turn. Its number is watched edge-triggered in the
// load's epoll.
#pragma once

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace bench {

using load_clock = std::chrono::steady_clock;

inline constexpr std::size_t message_size = 64;

[[noreturn]] inline void fail(const char* what) {
  throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

class client {
 public:
  client() = default;
  client(const client&) = delete;
  client& operator=(const client&) = delete;
  client(client&& other) noexcept : fd_(std::exchange(other.fd_, -1)), received_(other.received_), sent_(other.sent_) {}
  ~client() { disconnect(); }

  /// Begins to connect and is watched from then on, with `key` in its events. From one of many addresses of the
  /// loopback network, so that a storm of connections does not run out of ports.
  void connect(int epoll, int port, std::uint64_t key, unsigned salt) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd_ < 0) fail("socket");
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(fd_, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    ::sockaddr_in from{};
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl(0x7f000000U + (1 + salt % 200) * 256 + 1);  // 127.0.1.1 to 127.0.200.1
    if (::bind(fd_, reinterpret_cast<::sockaddr*>(&from), sizeof from) != 0) fail("bind");
    ::sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    if (::connect(fd_, reinterpret_cast<::sockaddr*>(&to), sizeof to) != 0 && errno != EINPROGRESS) fail("connect");
    ::epoll_event e{};
    e.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    e.data.u64 = key;
    if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd_, &e) != 0) fail("epoll_ctl");
    received_ = 0;
  }

  void disconnect() noexcept {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

  void request() {
    static constexpr std::array<char, message_size> message{};
    sent_ = load_clock::now();
    received_ = 0;
    if (::send(fd_, message.data(), message.size(), MSG_NOSIGNAL) != ::ssize_t{message_size}) fail("send");
  }

  /// Reads; true once the whole answer is there.
  bool receive() {
    std::array<char, 2 * message_size> buffer;
    const ::ssize_t n = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EAGAIN) return false;
    if (n < 0) fail("recv");
    if (n == 0) throw std::runtime_error("the server has closed a connection");
    received_ += static_cast<std::size_t>(n);
    if (received_ > message_size) throw std::runtime_error("more was answered than asked");
    return received_ == message_size;
  }

  load_clock::duration waited(load_clock::time_point until) const noexcept { return until - sent_; }

 private:
  int fd_ = -1;
  std::size_t received_ = 0;
  load_clock::time_point sent_{};
};

}  // namespace bench
