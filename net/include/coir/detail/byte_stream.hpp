// The operations that all streams of coir have: tcp_stream, unix_stream, pipe_stream.
//
// One fiber or thread at a time may read, and one may write. Any other may call close(), shutdown() or set a deadline
// meanwhile. If both ends belong to coir, a write happens before the return of the read that gets its bytes.
//
// Each operation blocks the calling fiber, or the calling thread outside of fibers. It has two forms. One throws
// std::system_error. The other takes a std::error_code& last, which it sets or clears, and returns how many bytes it
// has transferred. In a cancelled fiber both throw `cancelled`, but only if they would block: bytes that have arrived
// are read first. The errors:
//   net::errc::closed          this side has closed the stream, before the call or during it
//   net::errc::end_of_stream   read(): the peer has ended the stream before `into` was full
//   std::errc::timed_out       the deadline has passed, and the operation would block
//   others                     errors of the system: connection_reset, broken_pipe, ...
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

#include <coir/detail/abi.hpp>
#include <coir/detail/io_owner.hpp>

namespace coir::inline COIR_ABI::detail {

/// The members of all streams.
class byte_stream : public io_owner {
 public:
  using time_point = std::chrono::steady_clock::time_point;  ///< for the deadlines

  /// Takes over the descriptor; the other is closed afterwards.
  byte_stream(byte_stream&&) noexcept = default;
  byte_stream& operator=(byte_stream&&) noexcept = default;  ///< closes what it had

  /// Reads the bytes that have arrived, at least one. 0: the end of the stream, or `into` is empty.
  std::size_t read_some(std::span<std::byte> into);
  /// The same, but reports an error in `error`.
  std::size_t read_some(std::span<std::byte> into, std::error_code& error);

  /// Writes as many bytes as the system has room for, at least one.
  std::size_t write_some(std::span<const std::byte> from);
  /// The same, but reports an error in `error`.
  std::size_t write_some(std::span<const std::byte> from, std::error_code& error);

  /// Fills `into`. The second form returns how many bytes it has read: fewer than all only together with an error.
  void read(std::span<std::byte> into);
  /// The same, but reports an error in `error`.
  std::size_t read(std::span<std::byte> into, std::error_code& error);

  /// Writes all of `from`. The second form returns how many bytes it has written: fewer than all only together with an
  /// error.
  void write(std::span<const std::byte> from);
  /// The same, but reports an error in `error`.
  std::size_t write(std::span<const std::byte> from, std::error_code& error);

  /// As read_some() for several buffers. At most IOV_MAX of them are used.
  std::size_t readv(std::span<const ::iovec> into);
  /// The same, but reports an error in `error`.
  std::size_t readv(std::span<const ::iovec> into, std::error_code& error);
  /// As write_some() for several buffers. At most IOV_MAX of them are used.
  std::size_t writev(std::span<const ::iovec> from);
  /// The same, but reports an error in `error`.
  std::size_t writev(std::span<const ::iovec> from, std::error_code& error);

  /// Writes n bytes of a regular file from `offset` on, without copying them through the program. Returns how many
  /// bytes it has written: fewer than n if the file ends. Reading the disk blocks the thread.
  std::size_t send_file(int file, ::off_t offset, std::size_t n);
  /// The same, but reports an error in `error`.
  std::size_t send_file(int file, ::off_t offset, std::size_t n, std::error_code& error);

  /// Sets the time until which reads may block, for later calls and for calls that wait already. nullopt: no limit.
  void set_read_deadline(std::optional<time_point> until) noexcept;
  /// The same for writes.
  void set_write_deadline(std::optional<time_point> until) noexcept;

 protected:
  /// What the stream is.
  enum class kind : std::uint8_t { tcp, local, pipe };

  /// For the classes derived from it: closed.
  explicit byte_stream(kind k) noexcept : kind_(k) {}
  /// For the classes derived from it.
  byte_stream(kind k, io_handle handle) noexcept : io_owner(std::move(handle)), kind_(k) {}
  ~byte_stream() = default;

 private:
  kind kind_;
  // A short TCP read has taken everything that was there. The next read would block unless there has been an edge
  // since, so it waits at once and saves a system call. (On a local socket a short read may also have stopped before a
  // message with descriptors.)
  bool drained_ = false;
  std::uint32_t drained_at_ = 0;
};

}  // namespace coir::detail
