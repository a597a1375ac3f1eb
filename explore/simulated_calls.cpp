// The system calls of an exploration's streams and sockets: see network.hpp. To ThreadSanitizer they only read and
// write the caller's buffers.
#include "simulated_calls.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include <sys/uio.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>

#include "network.hpp"
#include "unobserved.hpp"

namespace coir::inline COIR_ABI::detail::simulated_calls {

namespace {

size copy_out(const net::endpoint& from, ::sockaddr* into, unsigned* size_of_into) noexcept {
  std::memcpy(into, from.data(), std::min<std::size_t>(from.size(), *size_of_into));
  *size_of_into = from.size();
  return 0;
}

/// Calls f with the network, if that has the socket. A stream may be left over from another schedule.
template <class F>
size call(int fd, F f) noexcept {
  const unobserved bookkeeping;
  network* const here = exploring() ? &network::here() : nullptr;
  return here != nullptr && here->has(fd) ? f(*here) : -EBADF;
}

/// The first n bytes of the buffers.
void note_writes(std::span<const ::iovec> to, size n) noexcept {
  for (const ::iovec& part : to) {
    const std::size_t here = std::min(part.iov_len, static_cast<std::size_t>(std::max<size>(n, 0)));
    observe_write(part.iov_base, here);
    n -= static_cast<size>(here);
  }
}

}  // namespace

size socket(int family, int type) noexcept {
  const unobserved bookkeeping;
  return network::here().open(family, type);
}

size socket_pair(int (&ends)[2]) noexcept {
  const unobserved bookkeeping;
  return network::here().open_pair(ends, false);
}

size pipe(int (&ends)[2]) noexcept {
  const unobserved bookkeeping;
  return network::here().open_pair(ends, true);
}

size accept(int fd) noexcept {
  return call(fd, [&](network& n) { return n.accept(fd); });
}

size bind(int fd, const ::sockaddr* at, unsigned size_of_at) noexcept {
  return call(fd, [&](network& n) { return n.bind(fd, {at, size_of_at}); });
}

size listen(int fd, int backlog) noexcept {
  return call(fd, [&](network& n) { return n.listen(fd, backlog); });
}

size connect(int fd, const ::sockaddr* to, unsigned size_of_to) noexcept {
  return call(fd, [&](network& n) { return n.connect(fd, {to, size_of_to}); });
}

size shut_down(int fd, int how) noexcept {
  return call(fd, [&](network& n) { return n.shut_down(fd, how); });
}

size set_option(int fd, int level, int option, int value) noexcept {
  return call(fd, [&](network& n) { return n.set_option(fd, level, option, value); });
}

size local_address(int fd, ::sockaddr* into, unsigned* size_of_into) noexcept {
  return call(fd, [&](network& n) {
    net::endpoint found;
    const size result = n.local_address(fd, found);
    return result < 0 ? result : copy_out(found, into, size_of_into);
  });
}

size peer_address(int fd, ::sockaddr* into, unsigned* size_of_into) noexcept {
  return call(fd, [&](network& n) {
    net::endpoint found;
    const size result = n.peer_address(fd, found);
    return result < 0 ? result : copy_out(found, into, size_of_into);
  });
}

void remove_file(const ::sockaddr* at, unsigned size_of_at) noexcept {
  const unobserved bookkeeping;
  network::here().remove_file({at, size_of_at});
}

bool is_ready(int fd, io_way way) noexcept {
  return call(fd, [&](network& n) { return size{n.is_ready(fd, way)}; }) != 0;
}

// ---- reading

size read(int fd, std::span<const ::iovec> to) noexcept {
  const size got = call(fd, [&](network& n) { return n.read(fd, to); });
  note_writes(to, got);
  return got;
}

size receive_from(int fd, void* to, std::size_t n, ::sockaddr* from, unsigned* from_size) noexcept {
  const ::iovec all{to, n};
  const size got = call(fd, [&](network& here) {
    net::endpoint sender;
    const size result = here.receive(fd, {&all, 1}, &sender);
    return result < 0 ? result : result + copy_out(sender, from, from_size);
  });
  note_writes({&all, 1}, got);
  return got;
}

// ---- writing

size write(int fd, std::span<const ::iovec> from) noexcept {
  for (const ::iovec& part : from) observe_read(part.iov_base, part.iov_len);
  return call(fd, [&](network& n) { return n.write(fd, from); });
}

size send_to(int fd, const void* from, std::size_t n, const ::sockaddr* to, unsigned to_size) noexcept {
  observe_read(from, n);
  return call(fd, [&](network& here) {
    return here.send_to(fd, std::string(static_cast<const char*>(from), n), {to, to_size});
  });
}

size send_file(int to, int from, ::off_t& offset, std::size_t n) noexcept {
  constexpr std::size_t most = 65'536;
  return call(to, [&](network& here) -> size {
    std::string bytes(std::min(n, most), '\0');
    const ::ssize_t got = ::pread(from, bytes.data(), bytes.size(), offset);
    if (got <= 0) return got == 0 ? 0 : -errno;
    const ::iovec all{bytes.data(), static_cast<std::size_t>(got)};
    const size sent = here.write(to, {&all, 1});
    if (sent > 0) offset += sent;
    return sent;
  });
}

}  // namespace coir::detail::simulated_calls
