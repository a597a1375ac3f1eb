#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>
#include <coir/detail/system_calls.hpp>
#include <coir/io.hpp>

namespace coir::inline COIR_ABI {

namespace {

detail::io_handle non_blocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    const int error = errno;
    ::close(fd);
    throw std::system_error(error, std::system_category(), "coir: pipe_stream");
  }
  return detail::io_handle(fd);
}

}  // namespace

pipe_stream::pipe_stream(int fd) : byte_stream(kind::pipe, non_blocking(fd)) {}

std::pair<pipe_stream, pipe_stream> make_pipe() {
  int ends[2];
  if (const auto n = detail::system_calls::pipe(ends); n < 0)
    throw std::system_error(static_cast<int>(-n), std::system_category(), "coir: make_pipe");
  std::pair<pipe_stream, pipe_stream> made;
  try {
    made.first = pipe_stream(detail::io_handle(ends[0]));
  } catch (...) {
    ::close(ends[1]);
    throw;
  }
  made.second = pipe_stream(detail::io_handle(ends[1]));
  return made;
}

}  // namespace coir
