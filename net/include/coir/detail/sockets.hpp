// Making sockets, and asking them. Not for users.
#pragma once

#include <system_error>

#include <coir/detail/io_handle.hpp>
#include <coir/endpoint.hpp>

namespace coir::detail::sockets {

/// A closed handle, and the error, if there is none to be had.
io_handle make(int family, int type, std::error_code& error);

/// Takes over a number that is open and in non-blocking mode.
io_handle adopt(int fd, std::error_code& error) noexcept;

io_handle connect(const net::endpoint& to, std::error_code& error);

void set_option(const io_handle& of, int level, int option, int value, std::error_code& error) noexcept;

net::endpoint local_endpoint(const io_handle& of);
net::endpoint remote_endpoint(const io_handle& of);

}  // namespace coir::detail::sockets
