// epoll_wait() and its kin. A fiber waits for an epoll instance as for any descriptor.
#include <sys/epoll.h>

#include <poll.h>

#include <coir/detail/abi.hpp>

#include "fiber_call.hpp"
#include "original.hpp"
#include "wait_any.hpp"

namespace coir::inline COIR_ABI::hooks {

namespace {

constinit original<int(int, ::epoll_event*, int, int)> libc_epoll_wait{"epoll_wait"};
constinit original<int(int, ::epoll_event*, int, int, const ::sigset_t*)> libc_epoll_pwait{"epoll_pwait"};
constinit original<int(int, ::epoll_event*, int, const ::timespec*, const ::sigset_t*)> libc_epoll_pwait2{
    "epoll_pwait2"};

[[gnu::constructor]] void find_all() {
  libc_epoll_wait.find();
  libc_epoll_pwait.find();
  libc_epoll_pwait2.find();
}

int wait_in_fiber(const hook_services& runtime, int epoll, ::epoll_event* events, int n, deadline until) {
  const int before = errno;
  const ::pollfd one{epoll, POLLIN, 0};
  const auto ask = [&]() -> result { return value_or_error(libc_epoll_wait(epoll, events, n, 0)); };
  return static_cast<int>(returned(wait_any(runtime, &one, 1, "epoll_wait", until, ask), before));
}

}  // namespace

}  // namespace coir::hooks

using namespace coir::hooks;

#pragma GCC visibility push(default)
extern "C" {

int epoll_wait(int epoll, ::epoll_event* events, int n, int time) {
  return ::epoll_pwait(epoll, events, n, time, nullptr);
}

// A mask of signals is for the thread, so such a call blocks the thread.
int epoll_pwait(int epoll, ::epoll_event* events, int n, int time, const ::sigset_t* mask) {
  const auto* const runtime = time != 0 && mask == nullptr ? fiber_runtime() : nullptr;
  if (runtime == nullptr) {
    return mask == nullptr ? libc_epoll_wait(epoll, events, n, time) : libc_epoll_pwait(epoll, events, n, time, mask);
  }
  const auto until = time < 0 ? no_deadline : after(*runtime, {time / 1000, time % 1000 * 1'000'000L});
  return wait_in_fiber(*runtime, epoll, events, n, until);
}

int epoll_pwait2(int epoll, ::epoll_event* events, int n, const ::timespec* time, const ::sigset_t* mask) {
  const auto* const runtime = mask == nullptr ? fiber_runtime() : nullptr;
  if (runtime == nullptr || !is_valid(time)) return libc_epoll_pwait2(epoll, events, n, time, mask);
  const auto until = time == nullptr ? no_deadline : after(*runtime, *time);
  return wait_in_fiber(*runtime, epoll, events, n, until);
}

}  // extern "C"
#pragma GCC visibility pop
