// endpoint: the address of a socket: an IPv4 or IPv6 address with a port, or the path of a local socket.
//
//   coir::net::endpoint("127.0.0.1:80")   coir::net::endpoint("[::1]:80")   coir::net::endpoint("unix:/run/app.sock")
//
// It is a value, with the thread safety of an int.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <sys/socket.h>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::net {

/// The address of a socket: an IPv4 or IPv6 address with a port, or the path of a local socket. A value.
class endpoint {
 public:
  /// An endpoint without a family. No socket can be bound to it or connected with it.
  endpoint() noexcept = default;

  /// Parses `a.b.c.d:port`, `[x:y::z]:port`, `[fe80::1%eth0]:port`, `unix:path` or `unix:@name` (an abstract name of
  /// Linux, which is no file). It does not look up host names: resolve() does. Throws std::invalid_argument, whose
  /// message contains the text.
  explicit endpoint(std::string_view text);

  /// Copies an address that the system has given. Throws std::invalid_argument if it is too long.
  endpoint(const ::sockaddr* address, ::socklen_t size);

  int family() const noexcept { return address_.ss_family; }  ///< AF_INET, AF_INET6 or AF_UNIX; AF_UNSPEC: no family
  std::uint16_t port() const noexcept;                        ///< 0: no port, or any port
  std::string to_string() const;                              ///< as the constructor takes it; empty without a family

  /// The address as system calls want it.
  const ::sockaddr* data() const noexcept { return reinterpret_cast<const ::sockaddr*>(&address_); }
  /// Its size in bytes.
  ::socklen_t size() const noexcept { return size_; }

  /// Whether they are the same address.
  bool operator==(const endpoint& other) const noexcept;

 private:
  ::sockaddr_storage address_{};
  ::socklen_t size_ = sizeof(::sa_family_t);
};

/// The addresses of a host and a service, in the order in which to try them, as getaddrinfo() gives them for TCP.
///
/// The lookup blocks a thread, not a processor. At most 16 lookups run at a time in the process. Callers that ask for
/// the same name at the same time share one answer. An empty host means this machine. A service is a name ("http") or a
/// port. Blocks. Throws std::system_error (of resolve_category() or of the system), and `cancelled`; the lookup then
/// goes on without the caller.
std::vector<endpoint> resolve(std::string_view host, std::string_view service);
/// The same, but reports an error in `error`, and then returns nothing. Throws `cancelled`.
std::vector<endpoint> resolve(std::string_view host, std::string_view service, std::error_code& error);

/// The category of the errors of getaddrinfo(). Its codes are EAI_NONAME and the like.
const std::error_category& resolve_category() noexcept;

}  // namespace coir::net
