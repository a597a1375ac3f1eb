// endpoint: where a socket is, or shall be: an IPv4 or IPv6 address with a port, or the path of a local socket.
//
//   coir::net::endpoint("127.0.0.1:80")   coir::net::endpoint("[::1]:80")   coir::net::endpoint("unix:/run/app.sock")
//
// A value; thread safety as of an int.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <sys/socket.h>

namespace coir::net {

class endpoint {
 public:
  /// Of no family: no socket can be bound to it or connected with it.
  endpoint() noexcept = default;

  /// From text: `a.b.c.d:port`, `[x:y::z]:port`, `[fe80::1%eth0]:port`, `unix:path`, `unix:@name` (Linux's abstract
  /// names, which are no files). Names of hosts are for resolve(). Throws std::invalid_argument, with the text in its
  /// message.
  explicit endpoint(std::string_view text);

  /// From what the system gave. Throws std::invalid_argument if it is too long.
  endpoint(const ::sockaddr* address, ::socklen_t size);

  int family() const noexcept { return address_.ss_family; }  ///< AF_INET, AF_INET6, AF_UNIX; AF_UNSPEC: none
  std::uint16_t port() const noexcept;                        ///< 0: none, or any
  std::string to_string() const;                              ///< what the constructor takes; empty: of no family

  const ::sockaddr* data() const noexcept { return reinterpret_cast<const ::sockaddr*>(&address_); }
  ::socklen_t size() const noexcept { return size_; }

  bool operator==(const endpoint& other) const noexcept;

 private:
  ::sockaddr_storage address_{};
  ::socklen_t size_ = sizeof(::sa_family_t);
};

/// The addresses of a host and a service, in the order in which to try them: getaddrinfo(), for TCP. Names are looked
/// up off the processors, at most 16 at a time in the process; callers who ask for the same at the same time share one
/// answer. An empty host is this machine itself; a service is a name ("http") or a port. Blocks; throws
/// std::system_error (of resolve_category(), or the system's), and `cancelled`: the lookup goes on without the caller.
std::vector<endpoint> resolve(std::string_view host, std::string_view service);
std::vector<endpoint> resolve(std::string_view host, std::string_view service, std::error_code& error);

/// The category of the errors of getaddrinfo(): its codes are EAI_NONAME and the like.
const std::error_category& resolve_category() noexcept;

}  // namespace coir::net
