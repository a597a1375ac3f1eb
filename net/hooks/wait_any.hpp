// Calls that wait for several descriptors and have a time limit: poll(), select().
#pragma once

#include <cstddef>
#include <type_traits>

#include <poll.h>

#include <coir/detail/abi.hpp>

#include "fiber_call.hpp"

namespace coir::inline COIR_ABI::hooks {

/// Calls ask(), which asks the kernel without waiting, until that does not return 0 or the deadline has come. Returns
/// what ask() found, or -errno; 0: the deadline has come. Parks in between. -ECANCELED: the fiber was cancelled.
template <class Ask>
result wait_any(const hook_services& runtime, const ::pollfd* fds, std::size_t n, const char* what, deadline until,
                Ask ask) {
  struct question {
    Ask& ask;
    result found;
  } q{ask, ask()};
  const auto look = [](void* arg) {
    auto& asked = *static_cast<question*>(arg);
    asked.found = asked.ask();
    return asked.found != 0;
  };
  bool on_time = true;
  while (q.found == 0 && on_time) {
    switch (runtime.wait_any(fds, n, look, &q, what, until)) {
      case hook_wake::ready:
        break;
      case hook_wake::timed_out:
        on_time = false;
        break;
      case hook_wake::cancelled:
        return -ECANCELED;
      case hook_wake::unwatchable:
        on_time = wait_as_thread(runtime, fds, n, until);
        break;
    }
    if (q.found == 0) q.found = ask();
  }
  return q.found;
}

}  // namespace coir::hooks
