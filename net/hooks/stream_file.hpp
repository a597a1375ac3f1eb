// What read() and write() are called on that is no socket, but may make its callers wait: pipes, terminals, eventfd,
// timerfd and the like.
//
// Most can be told not to block for one call (RWF_NOWAIT; pipes since Linux 6.4). For the others poll() is asked first,
// and the call made in turn (fiber_call.hpp).
#pragma once

#include <sys/stat.h>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::hooks {

class stream_file {
 public:
  explicit stream_file(int fd) noexcept : known_(::fstat(fd, &status_) == 0) {}

  /// Not of regular files, directories and disks, which are always ready, nor of what is not open.
  bool may_wait() const noexcept {
    return known_ && !S_ISREG(status_.st_mode) && !S_ISDIR(status_.st_mode) && !S_ISBLK(status_.st_mode);
  }

  bool is_pipe() const noexcept { return known_ && S_ISFIFO(status_.st_mode); }

 private:
  struct ::stat status_ {};
  bool known_;
};

}  // namespace coir::hooks
