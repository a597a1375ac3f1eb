// What system_calls.cpp calls instead of the system in an exploration. Only coir::explore has these functions, in
// explore/simulated_calls.cpp. They are called by fibers of an exploration.
#pragma once

#include <cstddef>
#include <span>

#include <coir/detail/abi.hpp>
#include <coir/detail/descriptor.hpp>
#include <coir/detail/system_calls.hpp>

namespace coir::inline COIR_ABI::detail::simulated_calls {

using system_calls::size;

size socket(int family, int type) noexcept;
size socket_pair(int (&ends)[2]) noexcept;
size pipe(int (&ends)[2]) noexcept;
size accept(int fd) noexcept;
size bind(int fd, const ::sockaddr* at, unsigned size_of_at) noexcept;
size listen(int fd, int backlog) noexcept;
size connect(int fd, const ::sockaddr* to, unsigned size_of_to) noexcept;
size shut_down(int fd, int how) noexcept;
size set_option(int fd, int level, int option, int value) noexcept;
size local_address(int fd, ::sockaddr* into, unsigned* size_of_into) noexcept;
size peer_address(int fd, ::sockaddr* into, unsigned* size_of_into) noexcept;
void remove_file(const ::sockaddr* at, unsigned size_of_at) noexcept;
bool is_ready(int fd, io_way way) noexcept;

size read(int fd, std::span<const ::iovec> to) noexcept;
size receive_from(int fd, void* to, std::size_t n, ::sockaddr* from, unsigned* from_size) noexcept;
size write(int fd, std::span<const ::iovec> from) noexcept;
size send_to(int fd, const void* from, std::size_t n, const ::sockaddr* to, unsigned to_size) noexcept;
size send_file(int to, int from, ::off_t& offset, std::size_t n) noexcept;

}  // namespace coir::detail::simulated_calls
