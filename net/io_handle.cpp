#include <coir/detail/io_handle.hpp>

#include <coir/detail/abi.hpp>

#include <unistd.h>

namespace coir::inline COIR_ABI::detail {

io_handle::io_handle(int fd) try : descriptor_(&descriptor::own(fd)), generation_(descriptor_->current()) {
} catch (...) {
  ::close(fd);
}

bool io_handle::use::wait(io_way way, std::uint32_t seen, const char* what, std::error_code& error, bool tried) const
    try {
  switch (descriptor_->wait(generation_, way, seen, what, true, no_deadline, tried)) {
    case io_wake::ready:
      return true;
    case io_wake::closed:
      error = net::errc::closed;
      break;
    case io_wake::timed_out:
      error = std::make_error_code(std::errc::timed_out);
      break;
  }
  return false;
} catch (const std::system_error& e) {
  error = e.code();
  return false;
}

void throw_io_error(const std::error_code& error, const char* what) { throw std::system_error(error, what); }

}  // namespace coir::detail
