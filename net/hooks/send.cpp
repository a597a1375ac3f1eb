// send() and its kin. They can be told not to block for one call (MSG_DONTWAIT). In blocking mode they return only when
// all is sent, unless there is an error or the time is over.
#include <coir/detail/abi.hpp>

#include "send.hpp"

#include "backoff.hpp"

namespace coir::inline COIR_ABI::hooks {

constinit original<::ssize_t(int, const ::msghdr*, int)> libc_sendmsg{"sendmsg"};

namespace {

constinit original<::ssize_t(int, const void*, std::size_t, int)> libc_send{"send"};
constinit original<::ssize_t(int, const void*, std::size_t, int, const ::sockaddr*, ::socklen_t)> libc_sendto{"sendto"};
constinit original<int(int, ::mmsghdr*, unsigned, int)> libc_sendmmsg{"sendmmsg"};

[[gnu::constructor]] void find_all() {
  libc_sendmsg.find();
  libc_send.find();
  libc_sendto.find();
  libc_sendmmsg.find();
}

/// The runtime, if the call is to park. A call that connects and sends at once is left to the C library.
const hook_services* runtime_for(int fd, int flags) noexcept {
  return (flags & (MSG_DONTWAIT | MSG_FASTOPEN)) == 0 ? fiber_runtime(fd) : nullptr;
}

/// One message, or a part of it.
result send_some(fiber_call& call, int fd, const ::msghdr& message, int flags) {
  const auto attempt = [&] { return value_or_error(libc_sendmsg(fd, &message, flags | MSG_DONTWAIT)); };
  if (message.msg_name == nullptr) return call.perform(attempt);
  // poll() does not tell when the queue of a peer has room, if the local socket is not connected to it.
  for (backoff pause;;) {
    call.look();
    const result r = attempt();
    if (r != -EAGAIN) return r;
    const int error = is_ready(fd, POLLOUT) ? call.sleep_for(pause.next()) : call.sleep();
    if (error != 0) return -error;
  }
}

::msghdr message_of(const ::iovec& buffer, const ::sockaddr* to, ::socklen_t to_size) noexcept {
  ::msghdr message{};
  message.msg_name = const_cast<::sockaddr*>(to);
  message.msg_namelen = to != nullptr ? to_size : 0;
  message.msg_iov = const_cast<::iovec*>(&buffer);
  message.msg_iovlen = 1;
  return message;
}

}  // namespace

result send_all(fiber_call& call, int fd, ::msghdr message, int flags) {
  io_vector buffers(message.msg_iov, message.msg_iovlen);
  result sent = 0;
  for (;;) {
    const result r = send_some(call, fd, message, flags);
    if (r < 0) return sent != 0 ? sent : r;
    sent += r;
    buffers.advance(static_cast<std::size_t>(r));
    if (buffers.empty()) return sent;
    message = {};
    message.msg_iov = const_cast<::iovec*>(buffers.data());
    message.msg_iovlen = buffers.size();
  }
}

}  // namespace coir::hooks

using namespace coir::hooks;

#pragma GCC visibility push(default)
extern "C" {

::ssize_t send(int fd, const void* from, std::size_t n, int flags) {
  const auto* const runtime = runtime_for(fd, flags);
  if (runtime == nullptr) return libc_send(fd, from, n, flags);
  fiber_call call(*runtime, fd, io_way::write, "send");
  const ::iovec buffer{const_cast<void*>(from), n};
  return call.done(send_all(call, fd, message_of(buffer, nullptr, 0), flags));
}

::ssize_t sendto(int fd, const void* from, std::size_t n, int flags, const ::sockaddr* to, ::socklen_t to_size) {
  const auto* const runtime = runtime_for(fd, flags);
  if (runtime == nullptr) return libc_sendto(fd, from, n, flags, to, to_size);
  fiber_call call(*runtime, fd, io_way::write, "sendto");
  const ::iovec buffer{const_cast<void*>(from), n};
  return call.done(send_all(call, fd, message_of(buffer, to, to_size), flags));
}

::ssize_t sendmsg(int fd, const ::msghdr* message, int flags) {
  const auto* const runtime = runtime_for(fd, flags);
  if (runtime == nullptr) return libc_sendmsg(fd, message, flags);
  fiber_call call(*runtime, fd, io_way::write, "sendmsg");
  return call.done(send_all(call, fd, *message, flags));
}

int sendmmsg(int fd, ::mmsghdr* messages, unsigned n, int flags) {
  const auto* const runtime = runtime_for(fd, flags);
  if (runtime == nullptr) return libc_sendmmsg(fd, messages, n, flags);
  fiber_call call(*runtime, fd, io_way::write, "sendmmsg");
  for (unsigned sent = 0;; ++sent) {
    if (sent == n) return static_cast<int>(call.done(sent));
    const result r = send_all(call, fd, messages[sent].msg_hdr, flags);
    if (r < 0) return static_cast<int>(call.done(sent != 0 ? sent : r));
    messages[sent].msg_len = static_cast<unsigned>(r);
  }
}

}  // extern "C"
#pragma GCC visibility pop
