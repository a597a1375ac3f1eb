#include "network_addresses.hpp"

#include <cstring>

#include <netinet/in.h>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

namespace {

template <class Address>
Address address_in(const net::endpoint& e) noexcept {
  Address a;
  std::memcpy(&a, e.data(), sizeof a);
  return a;
}

template <class Address>
net::endpoint endpoint_of(const Address& a) noexcept {
  return {reinterpret_cast<const ::sockaddr*>(&a), sizeof a};
}

std::uint32_t ipv4_of(const net::endpoint& e) noexcept { return ntohl(address_in<::sockaddr_in>(e).sin_addr.s_addr); }

::in6_addr ipv6_of(const net::endpoint& e) noexcept { return address_in<::sockaddr_in6>(e).sin6_addr; }

}  // namespace

bool is_loopback(const net::endpoint& e) noexcept {
  if (e.family() == AF_INET) return ipv4_of(e) >> 24 == IN_LOOPBACKNET;
  if (e.family() != AF_INET6) return false;
  const ::in6_addr a = ipv6_of(e);
  return IN6_IS_ADDR_LOOPBACK(&a) != 0;
}

bool is_any_address(const net::endpoint& e) noexcept {
  if (e.family() == AF_INET) return ipv4_of(e) == INADDR_ANY;
  if (e.family() != AF_INET6) return false;
  const ::in6_addr a = ipv6_of(e);
  return IN6_IS_ADDR_UNSPECIFIED(&a) != 0;
}

net::endpoint with_port(const net::endpoint& e, std::uint16_t port) noexcept {
  if (e.family() == AF_INET) {
    auto a = address_in<::sockaddr_in>(e);
    a.sin_port = htons(port);
    return endpoint_of(a);
  }
  auto a = address_in<::sockaddr_in6>(e);
  a.sin6_port = htons(port);
  return endpoint_of(a);
}

net::endpoint loopback_address(int family, std::uint16_t port) noexcept {
  if (family == AF_INET) {
    ::sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = htons(port);
    return endpoint_of(a);
  }
  ::sockaddr_in6 a{};
  a.sin6_family = AF_INET6;
  a.sin6_addr = in6addr_loopback;
  a.sin6_port = htons(port);
  return endpoint_of(a);
}

net::endpoint mapped(const net::endpoint& e) noexcept {
  if (e.family() != AF_INET) return e;
  const ::in_addr from = address_in<::sockaddr_in>(e).sin_addr;
  ::sockaddr_in6 a{};
  a.sin6_family = AF_INET6;
  a.sin6_port = htons(e.port());
  a.sin6_addr.s6_addr[10] = a.sin6_addr.s6_addr[11] = 0xff;
  std::memcpy(&a.sin6_addr.s6_addr[12], &from, sizeof from);
  return endpoint_of(a);
}

net::endpoint unmapped(const net::endpoint& e) noexcept {
  if (e.family() != AF_INET6) return e;
  const ::in6_addr from = ipv6_of(e);
  if (IN6_IS_ADDR_V4MAPPED(&from) == 0) return e;
  ::sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(e.port());
  std::memcpy(&a.sin_addr, &from.s6_addr[12], sizeof a.sin_addr);
  return endpoint_of(a);
}

bool covers(const net::endpoint& bound, const net::endpoint& to, bool only_ipv6) noexcept {
  if (bound.family() == AF_UNIX || to.family() == AF_UNIX) return bound == to;
  if (bound.port() != to.port()) return false;
  if (bound.family() == to.family()) return is_any_address(bound) || bound == to;
  return bound.family() == AF_INET6 && is_any_address(bound) && !only_ipv6;
}

}  // namespace coir::detail
