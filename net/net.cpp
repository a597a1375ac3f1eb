#include <coir/net.hpp>

#include <cerrno>
#include <stdexcept>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/detail/sockets.hpp>
#include <coir/detail/system_calls.hpp>

namespace coir::inline COIR_ABI::net {

using detail::io_handle;
using detail::io_way;
namespace sockets = detail::sockets;

namespace {

void check(const std::error_code& error, const char* what) {
  if (error) detail::throw_io_error(error, what);
}

void check(const std::error_code& error, const char* what, const endpoint& at) {
  if (error) throw std::system_error(error, "coir: " + std::string(what) + ' ' + at.to_string());
}

void require_family(const endpoint& at, bool local, const char* what) {
  if (local ? at.family() == AF_UNIX : at.family() == AF_INET || at.family() == AF_INET6) return;
  throw std::invalid_argument("coir: " + std::string(what) + ": \"" + at.to_string() + "\" is no address of that kind");
}

bool is_local(const endpoint& at) noexcept { return at.family() == AF_UNIX; }

/// Skips the errors of connections that failed before they were accepted: they are no errors of the listener. See
/// accept(2).
detail::system_calls::size accept_one(int fd) noexcept {
  for (;;) {
    const detail::system_calls::size n = detail::system_calls::accept(fd);
    if (n != -ECONNABORTED && n != -EPROTO && n != -ENETDOWN && n != -ENOPROTOOPT && n != -EHOSTDOWN && n != -ENONET &&
        n != -EHOSTUNREACH && n != -ENETUNREACH)
      return n;
  }
}

/// Of a system call that returned `n`.
std::error_code error_of(detail::system_calls::size n) noexcept {
  return {n < 0 ? static_cast<int>(-n) : 0, std::system_category()};
}

bool is_file(const endpoint& at) {
  return is_local(at) && reinterpret_cast<const ::sockaddr_un*>(at.data())->sun_path[0] != '\0';
}

io_handle bound(const endpoint& at, int type, const listen_options& options, std::error_code& error) {
  io_handle made = sockets::make(at.family(), type, error);
  const auto set = [&](int level, int option, bool on) {
    if (!error) sockets::set_option(made, level, option, on ? 1 : 0, error);
  };
  if (!is_local(at)) {
    if (type == SOCK_STREAM) set(SOL_SOCKET, SO_REUSEADDR, options.reuse_address);
    if (options.reuse_port) set(SOL_SOCKET, SO_REUSEPORT, true);
    if (at.family() == AF_INET6) set(IPPROTO_IPV6, IPV6_V6ONLY, options.ipv6_only);
  }
  if (!error) {
    detail::decide(detail::operation::bind);
    error = error_of(detail::system_calls::bind(made.number(), at.data(), at.size()));
  }
  return made;
}

}  // namespace

// ---- socket_stream

void socket_stream::shutdown(shutdown_how how, std::error_code& error) noexcept {
  const io_handle::use used(handle_);
  const int what = how == shutdown_how::read ? SHUT_RD : how == shutdown_how::write ? SHUT_WR : SHUT_RDWR;
  if (!used) {
    error = errc::closed;
  } else {
    if (detail::exploring()) detail::decide(detail::operation::shut_down, used.operator->());
    error = error_of(detail::system_calls::shut_down(used.number(), what));
  }
}

void socket_stream::shutdown(shutdown_how how) {
  std::error_code error;
  shutdown(how, error);
  check(error, "coir: shutdown");
}

endpoint socket_stream::local_endpoint() const { return sockets::local_endpoint(handle_); }
endpoint socket_stream::remote_endpoint() const { return sockets::remote_endpoint(handle_); }

// ---- tcp_stream

tcp_stream tcp_stream::connect(const endpoint& to, std::error_code& error) {
  require_family(to, false, "tcp_stream::connect");
  return tcp_stream(sockets::connect(to, error));
}

tcp_stream tcp_stream::connect(const endpoint& to) {
  std::error_code error;
  tcp_stream s = connect(to, error);
  check(error, "connect to", to);
  return s;
}

tcp_stream tcp_stream::connect(std::string_view host, std::string_view service, std::error_code& error) {
  for (const endpoint& to : resolve(host, service, error)) {
    tcp_stream s = connect(to, error);
    if (!error) return s;
  }
  return {};
}

tcp_stream tcp_stream::connect(std::string_view host, std::string_view service) {
  std::error_code error;
  tcp_stream s = connect(host, service, error);
  if (error) throw std::system_error(error, "coir: connect to " + std::string(host) + ", " + std::string(service));
  return s;
}

void tcp_stream::set_no_delay(bool on, std::error_code& error) noexcept {
  sockets::set_option(handle_, IPPROTO_TCP, TCP_NODELAY, on ? 1 : 0, error);
}
void tcp_stream::set_keep_alive(bool on, std::error_code& error) noexcept {
  sockets::set_option(handle_, SOL_SOCKET, SO_KEEPALIVE, on ? 1 : 0, error);
}
void tcp_stream::set_no_delay(bool on) {
  std::error_code error;
  set_no_delay(on, error);
  check(error, "coir: set_no_delay");
}
void tcp_stream::set_keep_alive(bool on) {
  std::error_code error;
  set_keep_alive(on, error);
  check(error, "coir: set_keep_alive");
}

// ---- unix_stream

unix_stream unix_stream::connect(const endpoint& to, std::error_code& error) {
  require_family(to, true, "unix_stream::connect");
  return unix_stream(sockets::connect(to, error));
}

unix_stream unix_stream::connect(const endpoint& to) {
  std::error_code error;
  unix_stream s = connect(to, error);
  check(error, "connect to", to);
  return s;
}

std::pair<unix_stream, unix_stream> unix_stream::pair() {
  int both[2];
  check(error_of(detail::system_calls::socket_pair(both)), "coir: unix_stream::pair");
  std::error_code first, second;
  io_handle one = sockets::adopt(both[0], first), other = sockets::adopt(both[1], second);
  check(first ? first : second, "coir: unix_stream::pair");
  return {unix_stream(std::move(one)), unix_stream(std::move(other))};
}

// ---- listeners

listener::listener(const endpoint& at, const listen_options& options) {
  std::error_code error;
  handle_ = bound(at, SOCK_STREAM, options, error);
  if (!error) {
    detail::decide(detail::operation::listen);
    error = error_of(detail::system_calls::listen(handle_.number(), options.backlog));
    if (error && is_file(at)) detail::system_calls::remove_file(at.data(), at.size());
  }
  check(error, "listen at", at);
}

io_handle listener::accept_handle(std::error_code& error) {
  const auto fd = handle_.perform(io_way::read, "accept", error, &accept_one);
  return error ? io_handle() : sockets::adopt(static_cast<int>(fd), error);
}

io_handle listener::try_accept_handle(std::error_code& error) {
  const io_handle::use used(handle_);
  if (!used) {
    error = errc::closed;
    return {};
  }
  used.decide(detail::operation::input);
  detail::system_calls::size fd = 0;
  do fd = accept_one(used.number());
  while (fd == -EINTR);
  if (fd >= 0) return sockets::adopt(static_cast<int>(fd), error);
  error.assign(static_cast<int>(-fd), std::system_category());
  if (fd == -EAGAIN) used.decide_after_poll(detail::operation::input);
  return {};
}

void listener::set_deadline(std::optional<time_point> until) noexcept { set_limit(io_way::read, until); }

endpoint listener::local_endpoint() const { return sockets::local_endpoint(handle_); }

tcp_listener::tcp_listener(const endpoint& at, listen_options options)
    : listener((require_family(at, false, "tcp_listener"), at), options) {}

tcp_stream tcp_listener::accept(std::error_code& error) {
  tcp_stream s(accept_handle(error));
  std::error_code unimportant;
  if (!error) s.set_no_delay(true, unimportant);
  return s;
}

std::optional<tcp_stream> tcp_listener::try_accept() {
  std::error_code error, unimportant;
  tcp_stream s(try_accept_handle(error));
  if (error == std::errc::operation_would_block) return std::nullopt;
  check(error, "coir: accept");
  s.set_no_delay(true, unimportant);
  return s;
}

tcp_stream tcp_listener::accept() {
  std::error_code error;
  tcp_stream s = accept(error);
  check(error, "coir: accept");
  return s;
}

unix_listener::unix_listener(const endpoint& at, listen_options options)
    : listener((require_family(at, true, "unix_listener"), at), options) {
  if (is_file(at)) file_ = std::make_unique<const endpoint>(at);
}

unix_listener& unix_listener::operator=(unix_listener&& other) noexcept {
  if (this != &other) {
    close();
    file_ = std::move(other.file_);
    listener::operator=(std::move(other));
  }
  return *this;
}

// Only the call that closes the listener removes the file: later another listener may have a file of that name.
void unix_listener::close() noexcept {
  if (handle_.close() && file_) detail::system_calls::remove_file(file_->data(), file_->size());
}

unix_stream unix_listener::accept(std::error_code& error) { return unix_stream(accept_handle(error)); }

std::optional<unix_stream> unix_listener::try_accept() {
  std::error_code error;
  unix_stream s(try_accept_handle(error));
  if (error == std::errc::operation_would_block) return std::nullopt;
  check(error, "coir: accept");
  return s;
}

unix_stream unix_listener::accept() {
  std::error_code error;
  unix_stream s = accept(error);
  check(error, "coir: accept");
  return s;
}

// ---- udp_socket

udp_socket::udp_socket(const endpoint& at) {
  require_family(at, false, "udp_socket");
  std::error_code error;
  handle_ = bound(at, SOCK_DGRAM, {}, error);
  check(error, "udp_socket at", at);
}

void udp_socket::connect(const endpoint& to, std::error_code& error) noexcept {
  const io_handle::use used(handle_);
  if (!used) {
    error = errc::closed;
  } else {
    if (detail::exploring()) detail::decide(detail::operation::connect, used.operator->());
    error = error_of(detail::system_calls::connect(used.number(), to.data(), to.size()));
  }
}

void udp_socket::connect(const endpoint& to) {
  std::error_code error;
  connect(to, error);
  check(error, "connect to", to);
}

void udp_socket::send_to(std::span<const std::byte> datagram, const endpoint& to, std::error_code& error) {
  handle_.perform(io_way::write, "udp send", error, [&](int fd) {
    return detail::system_calls::send_to(fd, datagram.data(), datagram.size(), to.data(), to.size());
  });
}

void udp_socket::send_to(std::span<const std::byte> datagram, const endpoint& to) {
  std::error_code error;
  send_to(datagram, to, error);
  check(error, "send to", to);
}

void udp_socket::send(std::span<const std::byte> datagram, std::error_code& error) {
  handle_.perform(io_way::write, "udp send", error,
                  [&](int fd) { return detail::system_calls::send(fd, datagram.data(), datagram.size()); });
}

void udp_socket::send(std::span<const std::byte> datagram) {
  std::error_code error;
  send(datagram, error);
  check(error, "coir: udp send");
}

std::size_t udp_socket::receive_from(std::span<std::byte> into, endpoint& from, std::error_code& error) {
  ::sockaddr_storage peer{};
  unsigned size = sizeof peer;
  const auto n = handle_.perform(io_way::read, "udp receive", error, [&](int fd) {
    size = sizeof peer;
    return detail::system_calls::receive_from(fd, into.data(), into.size(), reinterpret_cast<::sockaddr*>(&peer),
                                              &size);
  });
  if (error) return 0;
  from = endpoint(reinterpret_cast<const ::sockaddr*>(&peer), size);
  return static_cast<std::size_t>(n);
}

std::size_t udp_socket::receive_from(std::span<std::byte> into, endpoint& from) {
  std::error_code error;
  const std::size_t n = receive_from(into, from, error);
  check(error, "coir: udp receive");
  return n;
}

std::size_t udp_socket::receive(std::span<std::byte> into, std::error_code& error) {
  const auto n = handle_.perform(io_way::read, "udp receive", error,
                                 [&](int fd) { return detail::system_calls::receive(fd, into.data(), into.size()); });
  return error ? 0 : static_cast<std::size_t>(n);
}

std::size_t udp_socket::receive(std::span<std::byte> into) {
  std::error_code error;
  const std::size_t n = receive(into, error);
  check(error, "coir: udp receive");
  return n;
}

void udp_socket::set_read_deadline(std::optional<time_point> until) noexcept { set_limit(io_way::read, until); }
void udp_socket::set_write_deadline(std::optional<time_point> until) noexcept { set_limit(io_way::write, until); }

endpoint udp_socket::local_endpoint() const { return sockets::local_endpoint(handle_); }

}  // namespace coir::net
