// The C library's functions that receive from sockets.
#pragma once

#include <cstddef>

#include <sys/socket.h>
#include <sys/types.h>

#include <coir/detail/abi.hpp>

#include "original.hpp"

namespace coir::inline COIR_ABI::hooks {

extern constinit original<::ssize_t(int, void*, std::size_t, int)> libc_recv;
extern constinit original<::ssize_t(int, ::msghdr*, int)> libc_recvmsg;

}  // namespace coir::hooks
