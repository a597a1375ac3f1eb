// poll() and ppoll(). The kernel alone says what is ready.
#include "poll.hpp"

#include <cerrno>

#include <coir/detail/abi.hpp>

#include "fiber_call.hpp"
#include "wait_any.hpp"

namespace coir::inline COIR_ABI::hooks {

constinit original<int(::pollfd*, ::nfds_t, int)> libc_poll{"poll"};

namespace {

constinit original<int(::pollfd*, ::nfds_t, const ::timespec*, const ::sigset_t*)> libc_ppoll{"ppoll"};
constinit original<int(::pollfd*, ::nfds_t, int, std::size_t)> libc_poll_chk{"__poll_chk"};
constinit original<int(::pollfd*, ::nfds_t, const ::timespec*, const ::sigset_t*, std::size_t)> libc_ppoll_chk{
    "__ppoll_chk"};

[[gnu::constructor]] void find_all() {
  libc_poll.find();
  libc_ppoll.find();
  libc_poll_chk.find();
  libc_ppoll_chk.find();
}

int poll_in_fiber(const hook_services& runtime, ::pollfd* fds, ::nfds_t n, deadline until) {
  const int before = errno;
  const auto ask = [&]() -> result { return value_or_error(libc_poll(fds, n, 0)); };
  return static_cast<int>(returned(wait_any(runtime, fds, n, "poll", until, ask), before));
}

}  // namespace

}  // namespace coir::hooks

using namespace coir::hooks;

#pragma GCC visibility push(default)
extern "C" {

int poll(::pollfd* fds, ::nfds_t n, int time) {
  const auto* const runtime = time != 0 ? fiber_runtime() : nullptr;
  if (runtime == nullptr) return libc_poll(fds, n, time);
  const auto until = time < 0 ? no_deadline : after(*runtime, {time / 1000, time % 1000 * 1'000'000L});
  return poll_in_fiber(*runtime, fds, n, until);
}

// A mask of signals is for the thread, so such a call blocks the thread.
int ppoll(::pollfd* fds, ::nfds_t n, const ::timespec* time, const ::sigset_t* mask) {
  const auto* const runtime = mask == nullptr ? fiber_runtime() : nullptr;
  if (runtime == nullptr || !is_valid(time)) return libc_ppoll(fds, n, time, mask);
  const auto until = time == nullptr ? no_deadline : after(*runtime, *time);
  return poll_in_fiber(*runtime, fds, n, until);
}

// What a build with _FORTIFY_SOURCE calls instead.

int __poll_chk(::pollfd* fds, ::nfds_t n, int time, std::size_t room);
int __poll_chk(::pollfd* fds, ::nfds_t n, int time, std::size_t room) {
  return room / sizeof(::pollfd) < n ? libc_poll_chk(fds, n, time, room) : ::poll(fds, n, time);
}

int __ppoll_chk(::pollfd* fds, ::nfds_t n, const ::timespec* time, const ::sigset_t* mask, std::size_t room);
int __ppoll_chk(::pollfd* fds, ::nfds_t n, const ::timespec* time, const ::sigset_t* mask, std::size_t room) {
  return room / sizeof(::pollfd) < n ? libc_ppoll_chk(fds, n, time, mask, room) : ::ppoll(fds, n, time, mask);
}

}  // extern "C"
#pragma GCC visibility pop
