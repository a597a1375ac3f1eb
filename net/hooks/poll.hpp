// The C library's poll().
#pragma once

#include <poll.h>

#include <coir/detail/abi.hpp>

#include "original.hpp"

namespace coir::inline COIR_ABI::hooks {

extern constinit original<int(::pollfd*, ::nfds_t, int)> libc_poll;

}  // namespace coir::hooks
