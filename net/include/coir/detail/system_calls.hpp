// The system calls of streams and sockets. None of them blocks. They return the result of the system, or -errno: after
// a wait the fiber may run on another thread, which has another errno. In an exploration, all sockets and pipes are in
// memory (explore/network.hpp). Not for users.
#pragma once

#include <cstddef>

#include <sys/types.h>

#include <coir/detail/abi.hpp>
#include <coir/detail/descriptor.hpp>

struct iovec;
struct sockaddr;

namespace coir::inline COIR_ABI::detail::system_calls {

using size = ::ssize_t;

// In non-blocking mode, and not inherited by programs that are started.
size socket(int family, int type) noexcept;
size socket_pair(int (&ends)[2]) noexcept;  // local streams
size pipe(int (&ends)[2]) noexcept;
size accept(int fd) noexcept;

size bind(int fd, const ::sockaddr* at, unsigned size_of_at) noexcept;
size listen(int fd, int backlog) noexcept;
size connect(int fd, const ::sockaddr* to, unsigned size_of_to) noexcept;
size shut_down(int fd, int how) noexcept;
size set_option(int fd, int level, int option, int value) noexcept;
size local_address(int fd, ::sockaddr* into, unsigned* size_of_into) noexcept;
size peer_address(int fd, ::sockaddr* into, unsigned* size_of_into) noexcept;
void remove_file(const ::sockaddr* at, unsigned size_of_at) noexcept;  // of a local socket

/// Whether an operation in that direction would return at once, with an error or without.
bool is_ready(int fd, io_way way) noexcept;

size read(int fd, void* to, std::size_t n) noexcept;
size readv(int fd, const ::iovec* to, int n) noexcept;
size receive(int fd, void* to, std::size_t n) noexcept;
size receive_from(int fd, void* to, std::size_t n, ::sockaddr* from, unsigned* from_size) noexcept;

// None of these raises SIGPIPE.
size send(int fd, const void* from, std::size_t n) noexcept;
size sendv(int fd, const ::iovec* from, int n) noexcept;
size send_to(int fd, const void* from, std::size_t n, const ::sockaddr* to, unsigned to_size) noexcept;
size write_pipe(int fd, const void* from, std::size_t n) noexcept;
size writev_pipe(int fd, const ::iovec* from, int n) noexcept;
size send_file(int to, int from, ::off_t& offset, std::size_t n) noexcept;

}  // namespace coir::detail::system_calls
