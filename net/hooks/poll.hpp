// The C library's poll().
#pragma once

#include <poll.h>

#include "original.hpp"

namespace coir::hooks {

extern constinit original<int(::pollfd*, ::nfds_t, int)> libc_poll;

}  // namespace coir::hooks
