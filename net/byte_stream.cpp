#include <coir/detail/byte_stream.hpp>

#include <coir/detail/abi.hpp>

#include <algorithm>
#include <climits>
#include <utility>

namespace coir::inline COIR_ABI::detail {

namespace {

std::size_t checked(std::size_t n, const std::error_code& error, const char* what) {
  if (error) [[unlikely]]
    throw_io_error(error, what);
  return n;
}

std::size_t amount(system_calls::size n) noexcept { return n < 0 ? 0 : static_cast<std::size_t>(n); }

int count_of(std::span<const ::iovec> buffers) noexcept {
  return static_cast<int>(std::min<std::size_t>(buffers.size(), IOV_MAX));
}

bool all_empty(std::span<const ::iovec> buffers) noexcept {
  return std::all_of(buffers.begin(), buffers.end(), [](const ::iovec& b) { return b.iov_len == 0; });
}

}  // namespace

// ---- reading

std::size_t byte_stream::read_some(std::span<std::byte> into, std::error_code& error) {
  if (into.empty()) {
    error = is_open() ? std::error_code() : net::errc::closed;
    return 0;
  }
  if (kind_ != kind::tcp)
    return amount(handle_.perform(io_way::read, kind_ == kind::pipe ? "pipe read" : "socket read", error,
                                  [&](int fd) { return system_calls::read(fd, into.data(), into.size()); }));
  const io_handle::use used(handle_);
  if (!used) {
    error = net::errc::closed;
    return 0;
  }
  for (bool late = false;;) {
    used.decide(operation::input);
    const std::uint32_t seen = used->edges(io_way::read);
    system_calls::size n = -EAGAIN;
    const bool tries = !(drained_ && seen == drained_at_ && used->short_means_drained());
    if (tries) {
      n = system_calls::receive(used.number(), into.data(), into.size());
      drained_ = n > 0 && std::cmp_less(n, into.size());
      drained_at_ = seen;
    }
    if (n >= 0) [[likely]] {
      error.clear();
      return static_cast<std::size_t>(n);
    }
    if (n == -EINTR) continue;
    if (n != -EAGAIN) {
      error.assign(static_cast<int>(-n), std::system_category());
      return 0;
    }
    if (late) {
      used.decide_after_poll(operation::input);
      return 0;
    }
    drained_ = false;  // the system call is made after any wait
    if (used.wait(io_way::read, seen, "tcp read", error, tries)) continue;
    if (error != std::errc::timed_out) return 0;
    late = true;  // one more try: bytes may have come in time, and their event is not delivered yet
  }
}

std::size_t byte_stream::read_some(std::span<std::byte> into) {
  std::error_code error;
  const std::size_t n = read_some(into, error);
  return checked(n, error, "coir: read_some");
}

std::size_t byte_stream::read(std::span<std::byte> into, std::error_code& error) {
  std::size_t done = 0;
  error.clear();
  while (done < into.size()) {
    const std::size_t n = read_some(into.subspan(done), error);
    if (error) break;
    if (n == 0) {
      error = net::errc::end_of_stream;
      break;
    }
    done += n;
  }
  return done;
}

void byte_stream::read(std::span<std::byte> into) {
  std::error_code error;
  checked(read(into, error), error, "coir: read");
}

std::size_t byte_stream::readv(std::span<const ::iovec> into, std::error_code& error) {
  if (all_empty(into)) return read_some({}, error);
  drained_ = false;
  return amount(handle_.perform(io_way::read, "stream read", error,
                                [&](int fd) { return system_calls::readv(fd, into.data(), count_of(into)); }));
}

std::size_t byte_stream::readv(std::span<const ::iovec> into) {
  std::error_code error;
  const std::size_t n = readv(into, error);
  return checked(n, error, "coir: readv");
}

// ---- writing

std::size_t byte_stream::write_some(std::span<const std::byte> from, std::error_code& error) {
  if (from.empty()) {
    error = is_open() ? std::error_code() : net::errc::closed;
    return 0;
  }
  if (kind_ == kind::pipe)
    return amount(handle_.perform(io_way::write, "pipe write", error,
                                  [&](int fd) { return system_calls::write_pipe(fd, from.data(), from.size()); }));
  return amount(handle_.perform(io_way::write, kind_ == kind::tcp ? "tcp write" : "socket write", error,
                                [&](int fd) { return system_calls::send(fd, from.data(), from.size()); }));
}

std::size_t byte_stream::write_some(std::span<const std::byte> from) {
  std::error_code error;
  const std::size_t n = write_some(from, error);
  return checked(n, error, "coir: write_some");
}

std::size_t byte_stream::write(std::span<const std::byte> from, std::error_code& error) {
  std::size_t done = 0;
  error.clear();
  while (done < from.size() && !error) done += write_some(from.subspan(done), error);
  return done;
}

void byte_stream::write(std::span<const std::byte> from) {
  std::error_code error;
  checked(write(from, error), error, "coir: write");
}

std::size_t byte_stream::writev(std::span<const ::iovec> from, std::error_code& error) {
  if (all_empty(from)) return write_some({}, error);
  return amount(handle_.perform(io_way::write, "stream write", error, [&](int fd) {
    return kind_ == kind::pipe ? system_calls::writev_pipe(fd, from.data(), count_of(from))
                               : system_calls::sendv(fd, from.data(), count_of(from));
  }));
}

std::size_t byte_stream::writev(std::span<const ::iovec> from) {
  std::error_code error;
  const std::size_t n = writev(from, error);
  return checked(n, error, "coir: writev");
}

std::size_t byte_stream::send_file(int file, ::off_t offset, std::size_t n, std::error_code& error) {
  std::size_t done = 0;
  error.clear();
  while (done < n) {
    const std::size_t sent = amount(handle_.perform(io_way::write, "stream send_file", error, [&](int fd) {
      return system_calls::send_file(fd, file, offset, n - done);
    }));
    done += sent;
    if (error || sent == 0) break;
  }
  return done;
}

std::size_t byte_stream::send_file(int file, ::off_t offset, std::size_t n) {
  std::error_code error;
  const std::size_t sent = send_file(file, offset, n, error);
  return checked(sent, error, "coir: send_file");
}

// ---- deadlines

void byte_stream::set_read_deadline(std::optional<time_point> until) noexcept { set_limit(io_way::read, until); }

void byte_stream::set_write_deadline(std::optional<time_point> until) noexcept { set_limit(io_way::write, until); }

}  // namespace coir::detail
