// Files that are no sockets, but may make the callers of read() and write() wait: pipes, terminals, eventfd, timerfd
// and the like.
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

  /// False for regular files, directories and disks, which are always ready, and for what is not open.
  bool may_wait() const noexcept {
    return known_ && !S_ISREG(status_.st_mode) && !S_ISDIR(status_.st_mode) && !S_ISBLK(status_.st_mode);
  }

  bool is_pipe() const noexcept { return known_ && S_ISFIFO(status_.st_mode); }

 private:
  struct ::stat status_{};
  bool known_;
};

}  // namespace coir::hooks
