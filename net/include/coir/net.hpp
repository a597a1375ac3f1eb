// Sockets: streams and listeners over TCP and local sockets, and UDP.
//
//   coir::net::tcp_listener listener(coir::net::endpoint("0.0.0.0:8080"));
//   for (;;) coir::go([s = listener.accept()]() mutable { serve(s); });
//
// Each operation blocks the calling fiber, or the thread outside of fibers, and has two forms: one throws
// std::system_error, the other has a std::error_code& last, which it sets or clears. Both throw `cancelled` in a
// cancelled fiber, if they would block; the bodies of coir::timeout end them in the same way. What the errors are, what
// streams have in common, and who may do what at the same time: <coir/detail/byte_stream.hpp>.
//
// Sockets are closed by their destructors. All are in non-blocking mode and are not inherited by programs that are
// started. A wait for a socket is no deadlock. After fork() the child must not use coir: <coir/io.hpp> has `process`.
//
// Semantics: POSIX sockets; names and defaults as Go's package net, where POSIX leaves a choice.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <coir/detail/byte_stream.hpp>
#include <coir/detail/io_cases.hpp>
#include <coir/endpoint.hpp>
#include <coir/net_error.hpp>

namespace coir::net {

enum class shutdown_how { read, write, both };

/// What tcp_stream and unix_stream share, beside what pipes have too.
class socket_stream : public detail::byte_stream {
 public:
  /// Ends one side or both: the peer reads the end of the stream, who reads here gets 0. From any fiber or thread.
  void shutdown(shutdown_how how);
  void shutdown(shutdown_how how, std::error_code& error) noexcept;

  endpoint local_endpoint() const;
  endpoint remote_endpoint() const;

 protected:
  using byte_stream::byte_stream;
};

/// A TCP connection. Small writes leave at once (TCP_NODELAY), as in Go; set_no_delay(false) lets the system collect
/// them.
class tcp_stream : public socket_stream {
 public:
  /// Closed.
  tcp_stream() noexcept : socket_stream(kind::tcp) {}

  /// Connects; with the second form of error the stream is closed.
  static tcp_stream connect(const endpoint& to);
  static tcp_stream connect(const endpoint& to, std::error_code& error);

  /// Tries the addresses that resolve() gives one after the other; the error is that of the last.
  static tcp_stream connect(std::string_view host, std::string_view service);
  static tcp_stream connect(std::string_view host, std::string_view service, std::error_code& error);

  void set_no_delay(bool on);
  void set_no_delay(bool on, std::error_code& error) noexcept;
  void set_keep_alive(bool on);
  void set_keep_alive(bool on, std::error_code& error) noexcept;

 private:
  friend class tcp_listener;
  explicit tcp_stream(detail::io_handle handle) noexcept : socket_stream(kind::tcp, std::move(handle)) {}
};

/// A connection between processes of this machine.
class unix_stream : public socket_stream {
 public:
  unix_stream() noexcept : socket_stream(kind::local) {}

  /// If the listener's queue is full this waits in the system, in a thread, and is not cancelled.
  static unix_stream connect(const endpoint& to);
  static unix_stream connect(const endpoint& to, std::error_code& error);

  /// Two that are connected with each other. Throws std::system_error.
  static std::pair<unix_stream, unix_stream> pair();

 private:
  friend class unix_listener;
  explicit unix_stream(detail::io_handle handle) noexcept : socket_stream(kind::local, std::move(handle)) {}
};

struct listen_options {
  int backlog = 4096;         ///< connections that wait for accept(); the system may allow fewer
  bool reuse_address = true;  ///< bind beside connections of an earlier run that have not quite ended (SO_REUSEADDR)
  bool reuse_port = false;    ///< share the port with other listeners (SO_REUSEPORT)
  bool ipv6_only = false;     ///< "[::]:80" takes no IPv4 connections
};

/// Accepts connections. Any number of fibers and threads may call accept() at once.
class listener : public detail::io_owner {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  /// Until when accept() may block: calls to come, and those that wait already. Nothing: without end.
  void set_deadline(std::optional<time_point> until) noexcept;

  endpoint local_endpoint() const;

 protected:
  listener(const endpoint& at, const listen_options& options);
  detail::io_handle accept_handle(std::error_code& error);
  detail::io_handle try_accept_handle(std::error_code& error);
};

class tcp_listener : public listener {
 public:
  /// Binds and listens. Throws std::system_error (address_in_use, permission_denied, ...), std::invalid_argument if the
  /// endpoint is none of TCP.
  explicit tcp_listener(const endpoint& at, listen_options options = {});

  /// Blocks until there is a connection. One that the peer has given up meanwhile is passed over. Without descriptors
  /// (EMFILE) it throws, and the connection waits for the next call.
  tcp_stream accept();
  tcp_stream accept(std::error_code& error);

  /// Nothing: it would block.
  std::optional<tcp_stream> try_accept();
};

class unix_listener : public listener {
 public:
  /// Makes the socket's file; there must be none of that name. It is removed by close() and by the destructor.
  explicit unix_listener(const endpoint& at, listen_options options = {});
  ~unix_listener() { close(); }
  unix_listener(unix_listener&&) noexcept = default;
  unix_listener& operator=(unix_listener&& other) noexcept;

  unix_stream accept();
  unix_stream accept(std::error_code& error);
  std::optional<unix_stream> try_accept();
  void close() noexcept;

 private:
  std::unique_ptr<const endpoint> file_;  // which close() removes
};

/// Datagrams. Any number of fibers and threads may send and receive at once.
class udp_socket : public detail::io_owner {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  /// Bound to an address: port 0 is any that is free. Throws as tcp_listener does.
  explicit udp_socket(const endpoint& at);

  /// To whom send() sends, and from whom alone datagrams are taken from now on.
  void connect(const endpoint& to);
  void connect(const endpoint& to, std::error_code& error) noexcept;

  /// Sends one datagram; blocks if the system has no room for it.
  void send_to(std::span<const std::byte> datagram, const endpoint& to);
  void send_to(std::span<const std::byte> datagram, const endpoint& to, std::error_code& error);
  void send(std::span<const std::byte> datagram);
  void send(std::span<const std::byte> datagram, std::error_code& error);

  /// Receives one; returns its size. What does not fit into `into` is lost.
  std::size_t receive_from(std::span<std::byte> into, endpoint& from);
  std::size_t receive_from(std::span<std::byte> into, endpoint& from, std::error_code& error);
  std::size_t receive(std::span<std::byte> into);
  std::size_t receive(std::span<std::byte> into, std::error_code& error);

  void set_read_deadline(std::optional<time_point> until) noexcept;
  void set_write_deadline(std::optional<time_point> until) noexcept;

  endpoint local_endpoint() const;
};

}  // namespace coir::net
