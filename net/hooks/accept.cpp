// accept() and accept4(). They cannot be told not to block for one call, so poll() is asked first, and the calls are
// made in turn (fiber_call.hpp).
#include <poll.h>
#include <sys/socket.h>

#include <coir/detail/abi.hpp>

#include "fiber_call.hpp"
#include "original.hpp"

namespace coir::inline COIR_ABI::hooks {

namespace {

constinit original<int(int, ::sockaddr*, ::socklen_t*)> libc_accept{"accept"};
constinit original<int(int, ::sockaddr*, ::socklen_t*, int)> libc_accept4{"accept4"};

[[gnu::constructor]] void find_all() {
  libc_accept.find();
  libc_accept4.find();
}

/// Whether it is a listener. If not, accept() fails at once, and poll() has nothing to say.
bool listens(int fd) noexcept {
  int yes = 0;
  ::socklen_t size = sizeof yes;
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &size) == 0 && yes != 0;
}

int accept_in_fiber(const hook_services& runtime, int fd, ::sockaddr* peer, ::socklen_t* size, int flags) {
  fiber_call call(runtime, fd, io_way::read, "accept");
  return static_cast<int>(call.done(call.perform([&]() -> result {
    const turn mine(fd);
    if (!is_ready(fd, POLLIN) && listens(fd)) return -EAGAIN;
    return value_or_error(libc_accept4(fd, peer, size, flags));
  })));
}

}  // namespace

}  // namespace coir::hooks

using namespace coir::hooks;

#pragma GCC visibility push(default)
extern "C" {

int accept(int fd, ::sockaddr* peer, ::socklen_t* size) {
  const auto* const runtime = fiber_runtime(fd);
  if (runtime == nullptr) return libc_accept(fd, peer, size);
  return accept_in_fiber(*runtime, fd, peer, size, 0);
}

int accept4(int fd, ::sockaddr* peer, ::socklen_t* size, int flags) {
  const auto* const runtime = fiber_runtime(fd);
  if (runtime == nullptr) return libc_accept4(fd, peer, size, flags);
  return accept_in_fiber(*runtime, fd, peer, size, flags);
}

}  // extern "C"
#pragma GCC visibility pop
