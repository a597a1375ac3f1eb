// The poller for whoever waits for a descriptor outside of every runtime: plain threads. Its thread is started when the
// first one does, and sleeps in the kernel.
#pragma once

#include "sched/poller.hpp"

namespace coir::detail {

/// Throws std::system_error: no thread, or no epoll.
poller& outside_poller();

}  // namespace coir::detail
