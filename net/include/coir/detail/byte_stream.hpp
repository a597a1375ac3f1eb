// What the streams of coir have in common: tcp_stream, unix_stream, pipe_stream.
//
// One fiber or thread at a time may read, and one may write; any may close(), set a deadline or shut down meanwhile.
// What happens before a write happens before the return of the read that gets its bytes, if both ends are coir's.
//
// Each operation blocks the calling fiber, or the thread outside of fibers, and has two forms. One throws
// std::system_error. The other has a std::error_code& last, which it sets or clears, and returns how much was done.
// Both throw `cancelled` in a cancelled fiber, but only if they would block: what has arrived is read. The errors:
//   net::errc::closed          closed on this side, before or meanwhile
//   net::errc::end_of_stream   read(): the peer has ended before all had come
//   std::errc::timed_out       the deadline has passed, and the operation would block
//   others                     the system's: connection_reset, broken_pipe, ...
// A stream never raises SIGPIPE.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include <sys/types.h>
#include <sys/uio.h>

#include <coir/detail/io_owner.hpp>

namespace coir::detail {

class byte_stream : public io_owner {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  byte_stream(byte_stream&&) noexcept = default;
  byte_stream& operator=(byte_stream&&) noexcept = default;  ///< closes what it had

  /// Reads what has come, at least a byte. 0: the end of the stream, or `into` is empty.
  std::size_t read_some(std::span<std::byte> into);
  std::size_t read_some(std::span<std::byte> into, std::error_code& error);

  /// Writes as much as there is room for, at least a byte.
  std::size_t write_some(std::span<const std::byte> from);
  std::size_t write_some(std::span<const std::byte> from, std::error_code& error);

  /// Fills `into`. The second returns how much came; less than all with an error.
  void read(std::span<std::byte> into);
  std::size_t read(std::span<std::byte> into, std::error_code& error);

  /// Writes all of `from`. The second returns how much was written; less than all with an error.
  void write(std::span<const std::byte> from);
  std::size_t write(std::span<const std::byte> from, std::error_code& error);

  /// As read_some() and write_some(), over several buffers, of which no more than the system's IOV_MAX are used.
  std::size_t readv(std::span<const ::iovec> into);
  std::size_t readv(std::span<const ::iovec> into, std::error_code& error);
  std::size_t writev(std::span<const ::iovec> from);
  std::size_t writev(std::span<const ::iovec> from, std::error_code& error);

  /// Writes n bytes of a regular file from `offset` on, without copying them through the program. Returns how many;
  /// less than n if the file ends. Reading the disk blocks the thread.
  std::size_t send_file(int file, ::off_t offset, std::size_t n);
  std::size_t send_file(int file, ::off_t offset, std::size_t n, std::error_code& error);

  /// Until when reads, or writes, may block: those to come, and those that wait already. Nothing: without end.
  void set_read_deadline(std::optional<time_point> until) noexcept;
  void set_write_deadline(std::optional<time_point> until) noexcept;

 protected:
  enum class kind : std::uint8_t { tcp, local, pipe };

  explicit byte_stream(kind k) noexcept : kind_(k) {}
  byte_stream(kind k, io_handle handle) noexcept : io_owner(std::move(handle)), kind_(k) {}
  ~byte_stream() = default;

 private:
  kind kind_;
  // A TCP read that was short has taken all there was: the next one would block, unless there has been an edge since.
  // (Of a local socket it may have stopped before a message with descriptors.)
  bool drained_ = false;
  std::uint32_t drained_at_ = 0;
};

}  // namespace coir::detail
