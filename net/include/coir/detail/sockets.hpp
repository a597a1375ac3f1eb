// Functions that make sockets and ask for their addresses. Not for users.
#pragma once

#include <system_error>

#include <coir/detail/abi.hpp>
#include <coir/detail/io_handle.hpp>
#include <coir/endpoint.hpp>

namespace coir::inline COIR_ABI::detail::sockets {

/// On an error the handle is closed.
io_handle make(int family, int type, std::error_code& error);

/// Takes over a number that is open and in non-blocking mode; the number is closed on an error.
io_handle adopt(int fd, std::error_code& error) noexcept;

io_handle connect(const net::endpoint& to, std::error_code& error);

void set_option(const io_handle& of, int level, int option, int value, std::error_code& error) noexcept;

net::endpoint local_endpoint(const io_handle& of);
net::endpoint remote_endpoint(const io_handle& of);

}  // namespace coir::detail::sockets
