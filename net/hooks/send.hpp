// The C library's functions that send to sockets.
#pragma once

#include <cstddef>

#include <sys/socket.h>
#include <sys/types.h>

#include <coir/detail/abi.hpp>

#include "fiber_call.hpp"
#include "io_vector.hpp"
#include "original.hpp"

namespace coir::inline COIR_ABI::hooks {

extern constinit original<::ssize_t(int, const ::msghdr*, int)> libc_sendmsg;

/// Sends all of it, as a call on a socket in blocking mode does. Control data and an address belong to the first part.
result send_all(fiber_call& call, int fd, ::msghdr message, int flags);

}  // namespace coir::hooks
