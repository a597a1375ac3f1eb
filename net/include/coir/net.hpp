// Sockets: streams and listeners over TCP and local sockets, and UDP.
//
//   coir::net::tcp_listener listener(coir::net::endpoint("0.0.0.0:8080"));
//   for (;;) coir::go([s = listener.accept()]() mutable { serve(s); });
//
// Each operation blocks the calling fiber, or the calling thread outside of fibers. It has two forms: one throws
// std::system_error, the other takes a std::error_code& last, which it sets or clears. In a cancelled fiber, and in an
// expired coir::timeout, an operation of either form that would block throws `cancelled`. The operations that all
// streams have, their errors and their thread safety are documented in <coir/detail/byte_stream.hpp>.
//
// The destructor closes a socket. All sockets are non-blocking, and programs that are started do not inherit them. A
// fiber that waits for a socket does not count for a deadlock. A child made by fork() must not use coir; use `process`
// of <coir/io.hpp> instead.
//
// Semantics: POSIX sockets. Where POSIX leaves a choice, the names and defaults are those of Go's package net.
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

#include <coir/detail/abi.hpp>
#include <coir/detail/byte_stream.hpp>
#include <coir/detail/io_cases.hpp>
#include <coir/endpoint.hpp>
#include <coir/net_error.hpp>

namespace coir::inline COIR_ABI::net {

/// Which direction of a stream shutdown() ends.
enum class shutdown_how { read, write, both };

/// The operations that tcp_stream and unix_stream share and pipe_stream does not have.
class socket_stream : public detail::byte_stream {
 public:
  /// Ends one direction or both. After `write` the peer reads the end of the stream; after `read` reads on this side
  /// return 0. May be called from any fiber or thread.
  void shutdown(shutdown_how how);
  /// The same, but reports an error in `error`.
  void shutdown(shutdown_how how, std::error_code& error) noexcept;

  /// The address of this side. Does not block. Throws std::system_error; the error is net::errc::closed if the stream
  /// is closed.
  endpoint local_endpoint() const;
  /// The address of the peer. Otherwise as local_endpoint().
  endpoint remote_endpoint() const;

 protected:
  /// For the classes derived from it.
  using byte_stream::byte_stream;
};

/// A TCP connection. As in Go, the system sends small writes at once (TCP_NODELAY); after set_no_delay(false) it may
/// collect them first.
class tcp_stream : public socket_stream {
 public:
  /// Closed.
  tcp_stream() noexcept : socket_stream(kind::tcp) {}

  /// Connects. If the second form reports an error, it returns a closed stream. Both forms throw std::invalid_argument
  /// if the endpoint has no IP address.
  static tcp_stream connect(const endpoint& to);
  /// The same, but reports an error in `error`.
  static tcp_stream connect(const endpoint& to, std::error_code& error);

  /// Tries the addresses of resolve() one after the other. The error is that of the last one.
  static tcp_stream connect(std::string_view host, std::string_view service);
  /// The same, but reports an error in `error`.
  static tcp_stream connect(std::string_view host, std::string_view service, std::error_code& error);

  /// True: the system sends small writes at once (TCP_NODELAY), as it does at first. False: it may collect them. Does
  /// not block. Throws std::system_error.
  void set_no_delay(bool on);
  /// The same, but reports an error in `error`.
  void set_no_delay(bool on, std::error_code& error) noexcept;
  /// Whether the system probes the peer of an idle connection (SO_KEEPALIVE). Does not block. Throws std::system_error.
  void set_keep_alive(bool on);
  /// The same, but reports an error in `error`.
  void set_keep_alive(bool on, std::error_code& error) noexcept;

 private:
  friend class tcp_listener;
  explicit tcp_stream(detail::io_handle handle) noexcept : socket_stream(kind::tcp, std::move(handle)) {}
};

/// A connection between two processes of this machine.
class unix_stream : public socket_stream {
 public:
  unix_stream() noexcept : socket_stream(kind::local) {}

  /// Connects. While the listener's queue is full, it tries again, at least every 10 ms, since the system does not say
  /// when there is room. If the second form reports an error, it returns a closed stream. Both forms throw
  /// std::invalid_argument if the endpoint is not the path or the name of a local socket.
  static unix_stream connect(const endpoint& to);
  /// The same, but reports an error in `error`.
  static unix_stream connect(const endpoint& to, std::error_code& error);

  /// Two streams that are connected to each other. Throws std::system_error.
  static std::pair<unix_stream, unix_stream> pair();

 private:
  friend class unix_listener;
  explicit unix_stream(detail::io_handle handle) noexcept : socket_stream(kind::local, std::move(handle)) {}
};

/// How a listener is opened.
struct listen_options {
  int backlog = 4096;         ///< how many connections may wait for accept(); the system may allow fewer
  bool reuse_address = true;  ///< bind although connections of an earlier run are still ending (SO_REUSEADDR)
  bool reuse_port = false;    ///< let other listeners use the same port (SO_REUSEPORT)
  bool ipv6_only = false;     ///< "[::]:80" accepts no IPv4 connections
};

/// Accepts connections. Any number of fibers and threads may call accept() at once.
class listener : public detail::io_owner {
 public:
  using time_point = std::chrono::steady_clock::time_point;  ///< for set_deadline()

  /// Sets the time until which accept() may block, for later calls and for calls that wait already. nullopt: no limit.
  void set_deadline(std::optional<time_point> until) noexcept;

  /// The address that the listener is bound to; with the port that the system chose, if it was 0. Does not block.
  /// Throws std::system_error.
  endpoint local_endpoint() const;

 protected:
  /// Binds and listens. Throws std::system_error.
  listener(const endpoint& at, const listen_options& options);
  /// Blocks until there is a connection, and returns its descriptor; see tcp_listener::accept().
  detail::io_handle accept_handle(std::error_code& error);
  /// The same without blocking. The error is std::errc::operation_would_block if there is no connection.
  detail::io_handle try_accept_handle(std::error_code& error);
};

/// A socket that accepts TCP connections.
class tcp_listener : public listener {
 public:
  /// Binds and listens. Throws std::system_error (address_in_use, permission_denied, ...), and std::invalid_argument if
  /// the endpoint has no IP address.
  explicit tcp_listener(const endpoint& at, listen_options options = {});

  /// Blocks until there is a connection and returns it. A connection that failed before it was accepted is skipped. If
  /// the process has no descriptor left (EMFILE), it throws, and the connection stays queued for the next call.
  tcp_stream accept();
  /// The same; reports a failure in `error`.
  tcp_stream accept(std::error_code& error);

  /// Accepts a connection without blocking. nullopt: accept() would block. Throws std::system_error.
  std::optional<tcp_stream> try_accept();
};

/// A socket that accepts connections of the same machine.
class unix_listener : public listener {
 public:
  /// Binds and listens. Creates the socket's file, which must not exist yet; an abstract name has no file. close() and
  /// the destructor remove the file. Throws std::system_error, and std::invalid_argument if the endpoint is not the
  /// path or the name of a local socket.
  explicit unix_listener(const endpoint& at, listen_options options = {});
  ~unix_listener() { close(); }
  /// Takes over the socket; the other is closed afterwards.
  unix_listener(unix_listener&&) noexcept = default;
  /// The same, after it has closed its own.
  unix_listener& operator=(unix_listener&& other) noexcept;

  /// accept() and try_accept() do the same as those of tcp_listener.
  unix_stream accept();
  /// As the one of tcp_listener.
  unix_stream accept(std::error_code& error);
  /// As the one of tcp_listener.
  std::optional<unix_stream> try_accept();
  /// As the one of all listeners. Removes the socket's file too.
  void close() noexcept;

 private:
  std::unique_ptr<const endpoint> file_;  // close() removes it; null: an abstract name
};

/// A socket for datagrams. Any number of fibers and threads may send and receive at once.
class udp_socket : public detail::io_owner {
 public:
  using time_point = std::chrono::steady_clock::time_point;  ///< for the deadlines

  /// Binds to an address; port 0 means any free port. Throws as tcp_listener does.
  explicit udp_socket(const endpoint& at);

  /// Sets the peer: send() sends to it, and from now on only its datagrams are received.
  void connect(const endpoint& to);
  /// The same, but reports an error in `error`.
  void connect(const endpoint& to, std::error_code& error) noexcept;

  /// Sends one datagram. Blocks while the system has no room for it.
  void send_to(std::span<const std::byte> datagram, const endpoint& to);
  /// The same, but reports an error in `error`.
  void send_to(std::span<const std::byte> datagram, const endpoint& to, std::error_code& error);
  /// Sends one datagram to the peer that connect() has set. Otherwise as send_to().
  void send(std::span<const std::byte> datagram);
  /// The same, but reports an error in `error`.
  void send(std::span<const std::byte> datagram, std::error_code& error);

  /// Receives one datagram and returns its size. Bytes that do not fit into `into` are lost.
  std::size_t receive_from(std::span<std::byte> into, endpoint& from);
  /// The same, but reports an error in `error`. Then returns 0 and leaves `from` as it was.
  std::size_t receive_from(std::span<std::byte> into, endpoint& from, std::error_code& error);
  /// As receive_from(), for a caller that does not ask for the sender.
  std::size_t receive(std::span<std::byte> into);
  /// The same, but reports an error in `error`, and then returns 0.
  std::size_t receive(std::span<std::byte> into, std::error_code& error);

  /// Sets the time until which receiving may block, for later calls and for calls that wait already. nullopt: no limit.
  void set_read_deadline(std::optional<time_point> until) noexcept;
  /// The same for sending.
  void set_write_deadline(std::optional<time_point> until) noexcept;

  /// The address that the socket is bound to; with the port that the system chose, if it was 0. Does not block. Throws
  /// std::system_error.
  endpoint local_endpoint() const;
};

}  // namespace coir::net
