// The addresses of the simulated network, which has the loopback interface alone: 127.0.0.0/8 and ::1.
#pragma once

#include <cstdint>

#include <coir/detail/abi.hpp>
#include <coir/endpoint.hpp>

namespace coir::inline COIR_ABI::detail {

bool is_loopback(const net::endpoint& e) noexcept;

/// 0.0.0.0 or [::]
bool is_any_address(const net::endpoint& e) noexcept;

net::endpoint with_port(const net::endpoint& e, std::uint16_t port) noexcept;

/// 127.0.0.1 or [::1]
net::endpoint loopback_address(int family, std::uint16_t port) noexcept;

/// An IPv4 address as IPv6 sockets see it (::ffff:a.b.c.d), and back. Others stay as they are.
net::endpoint mapped(const net::endpoint& e) noexcept;
net::endpoint unmapped(const net::endpoint& e) noexcept;

/// Whether a socket that is bound to `bound` receives what is sent to `to`.
bool covers(const net::endpoint& bound, const net::endpoint& to, bool only_ipv6) noexcept;

}  // namespace coir::detail
