// The poller of the plain threads that wait for a descriptor, outside of all runtimes. It has a thread, which is
// started when the first of them waits, and sleeps in epoll.
#pragma once

#include <coir/detail/abi.hpp>

#include "sched/poller.hpp"

namespace coir::inline COIR_ABI::detail {

/// Throws std::system_error: no thread, or no epoll.
poller& outside_poller();

}  // namespace coir::detail
