// recv() and its kin, which can be told not to block for one call (MSG_DONTWAIT).
#include <coir/detail/abi.hpp>

#include "receive.hpp"

#include "fiber_call.hpp"
#include "io_vector.hpp"

namespace coir::inline COIR_ABI::hooks {

constinit original<::ssize_t(int, void*, std::size_t, int)> libc_recv{"recv"};
constinit original<::ssize_t(int, ::msghdr*, int)> libc_recvmsg{"recvmsg"};

namespace {

constinit original<::ssize_t(int, void*, std::size_t, int, ::sockaddr*, ::socklen_t*)> libc_recvfrom{"recvfrom"};
constinit original<int(int, ::mmsghdr*, unsigned, int, ::timespec*)> libc_recvmmsg{"recvmmsg"};
constinit original<::ssize_t(int, void*, std::size_t, std::size_t, int)> libc_recv_chk{"__recv_chk"};
constinit original<::ssize_t(int, void*, std::size_t, std::size_t, int, ::sockaddr*, ::socklen_t*)> libc_recvfrom_chk{
    "__recvfrom_chk"};

[[gnu::constructor]] void find_all() {
  libc_recv.find();
  libc_recvmsg.find();
  libc_recvfrom.find();
  libc_recvmmsg.find();
  libc_recv_chk.find();
  libc_recvfrom_chk.find();
}

/// The runtime, if the call is to park. With one of the first three flags a call never blocks. A call that peeks at all
/// of a message is left to the C library.
const hook_services* runtime_for(int fd, int flags) noexcept {
  constexpr int peeks_at_all = MSG_PEEK | MSG_WAITALL;
  if ((flags & (MSG_DONTWAIT | MSG_ERRQUEUE | MSG_OOB)) != 0 || (flags & peeks_at_all) == peeks_at_all) return nullptr;
  return fiber_runtime(fd);
}

/// Whether MSG_WAITALL has a meaning.
bool is_stream(int fd) noexcept {
  int type = 0;
  ::socklen_t size = sizeof type;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

/// A call has received `first` bytes of these. With MSG_WAITALL receives the rest, until an end or error, which the
/// next call will see.
result receive_rest(fiber_call& call, int fd, io_vector buffers, int flags, result first) {
  if (first <= 0 || (flags & MSG_WAITALL) == 0) return first;
  result received = first;
  buffers.advance(static_cast<std::size_t>(first));
  if (buffers.empty() || !is_stream(fd)) return first;
  while (!buffers.empty()) {
    const result r = call.perform([&] {
      ::msghdr message{};
      message.msg_iov = const_cast<::iovec*>(buffers.data());
      message.msg_iovlen = buffers.size();
      return value_or_error(libc_recvmsg(fd, &message, flags | MSG_DONTWAIT));
    });
    if (r <= 0) break;
    received += r;
    buffers.advance(static_cast<std::size_t>(r));
  }
  return received;
}

}  // namespace

}  // namespace coir::hooks

using namespace coir::hooks;

#pragma GCC visibility push(default)
extern "C" {

::ssize_t recv(int fd, void* to, std::size_t n, int flags) {
  const auto* const runtime = runtime_for(fd, flags);
  if (runtime == nullptr) return libc_recv(fd, to, n, flags);
  fiber_call call(*runtime, fd, io_way::read, "recv");
  const result r = call.perform([&] { return value_or_error(libc_recv(fd, to, n, flags | MSG_DONTWAIT)); });
  const ::iovec buffer{to, n};
  return call.done(receive_rest(call, fd, io_vector(&buffer, 1), flags, r));
}

::ssize_t recvfrom(int fd, void* to, std::size_t n, int flags, ::sockaddr* from, ::socklen_t* from_size) {
  const auto* const runtime = runtime_for(fd, flags);
  if (runtime == nullptr) return libc_recvfrom(fd, to, n, flags, from, from_size);
  fiber_call call(*runtime, fd, io_way::read, "recvfrom");
  const result r =
      call.perform([&] { return value_or_error(libc_recvfrom(fd, to, n, flags | MSG_DONTWAIT, from, from_size)); });
  const ::iovec buffer{to, n};
  return call.done(receive_rest(call, fd, io_vector(&buffer, 1), flags, r));
}

::ssize_t recvmsg(int fd, ::msghdr* message, int flags) {
  const auto* const runtime = runtime_for(fd, flags);
  if (runtime == nullptr) return libc_recvmsg(fd, message, flags);
  fiber_call call(*runtime, fd, io_way::read, "recvmsg");
  const result r = call.perform([&] { return value_or_error(libc_recvmsg(fd, message, flags | MSG_DONTWAIT)); });
  if (r <= 0) return call.done(r);
  return call.done(receive_rest(call, fd, io_vector(message->msg_iov, message->msg_iovlen), flags, r));
}

// A call with a time limit is left to the C library: the system looks at the limit only between datagrams.
int recvmmsg(int fd, ::mmsghdr* messages, unsigned n, int flags, ::timespec* time) {
  const auto* const runtime = time == nullptr ? runtime_for(fd, flags) : nullptr;
  if (runtime == nullptr) return libc_recvmmsg(fd, messages, n, flags, time);
  fiber_call call(*runtime, fd, io_way::read, "recvmmsg");
  unsigned received = 0;
  for (;;) {
    const result r = call.perform([&] {
      return value_or_error(libc_recvmmsg(fd, messages + received, n - received, flags | MSG_DONTWAIT, nullptr));
    });
    if (r < 0) return static_cast<int>(call.done(received != 0 ? received : r));
    received += static_cast<unsigned>(r);
    if (received >= n || r == 0 || (flags & MSG_WAITFORONE) != 0) return static_cast<int>(call.done(received));
  }
}

// What a build with _FORTIFY_SOURCE calls instead.

::ssize_t __recv_chk(int fd, void* to, std::size_t n, std::size_t room, int flags);
::ssize_t __recv_chk(int fd, void* to, std::size_t n, std::size_t room, int flags) {
  return n > room ? libc_recv_chk(fd, to, n, room, flags) : ::recv(fd, to, n, flags);
}

::ssize_t __recvfrom_chk(int fd, void* to, std::size_t n, std::size_t room, int flags, ::sockaddr* from,
                         ::socklen_t* from_size);
::ssize_t __recvfrom_chk(int fd, void* to, std::size_t n, std::size_t room, int flags, ::sockaddr* from,
                         ::socklen_t* from_size) {
  return n > room ? libc_recvfrom_chk(fd, to, n, room, flags, from, from_size)
                  : ::recvfrom(fd, to, n, flags, from, from_size);
}

}  // extern "C"
#pragma GCC visibility pop
