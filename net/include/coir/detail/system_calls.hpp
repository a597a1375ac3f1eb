// The system calls of streams and sockets. None of them blocks. They return the result of the system, or -errno: after
// a wait the fiber may run on another thread, which has another errno. Not for users.
#pragma once

#include <cstddef>

#include <sys/types.h>

#include <coir/detail/abi.hpp>

struct iovec;
struct sockaddr;

namespace coir::inline COIR_ABI::detail::system_calls {

using size = ::ssize_t;

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

size accept(int fd, ::sockaddr* peer, unsigned* peer_size) noexcept;
size connect(int fd, const ::sockaddr* to, unsigned to_size) noexcept;

}  // namespace coir::detail::system_calls
