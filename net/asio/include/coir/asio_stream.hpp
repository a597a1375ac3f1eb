// asio_stream: a stream of coir for Boost.Asio's synchronous functions.
//
//   coir::asio_stream stream(listener.accept());
//   beast::http::read(stream, buffer, request);      // blocks the fiber
//   beast::http::write(stream, response);
//
//   asio::ssl::stream<coir::asio_stream<coir::net::tcp_stream>> tls(listener.accept(), tls_context);
//   tls.handshake(asio::ssl::stream_base::server);
//
// It models Asio's SyncReadStream and SyncWriteStream, and is what asio::ssl::stream asks of its lowest layer. The
// fiber waits as in every operation of coir, and no io_context has to run. There are no asynchronous functions: fibers
// need none. (For operations that exist in an asynchronous form alone there is coir::use_fiber.)
//
// Thread and fiber safety, deadlines and `cancelled` are those of the stream inside: <coir/detail/byte_stream.hpp>.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <system_error>
#include <utility>

#include <sys/uio.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>

#include <coir/detail/abi.hpp>
#include <coir/detail/fiber_executor.hpp>
#include <coir/net_error.hpp>

namespace coir::inline COIR_ABI {

/// An error of coir's streams as Asio tells it: net::errc::closed is asio::error::bad_descriptor,
/// net::errc::end_of_stream is asio::error::eof, a deadline that has passed is asio::error::timed_out; the system's are
/// the same numbers. So one that compares with Asio's constants finds what it looks for.
inline boost::system::error_code to_asio_error(const std::error_code& error) {
  if (!error) return {};
  if (error == net::errc::end_of_stream) return boost::asio::error::eof;
  if (error == net::errc::closed) return boost::asio::error::bad_descriptor;
  if (error.category() == std::system_category() || error.category() == std::generic_category())
    return {error.value(), boost::system::system_category()};
  return boost::asio::error::fault;  // streams have no others
}

namespace detail {

/// The parts of a buffer sequence that are not empty; not more than one system call would take in Asio either.
class io_vectors {
 public:
  template <class BufferSequence>
  explicit io_vectors(const BufferSequence& buffers) noexcept {
    const auto end = boost::asio::buffer_sequence_end(buffers);
    for (auto i = boost::asio::buffer_sequence_begin(buffers); i != end && count_ < parts_.size(); ++i) {
      const boost::asio::const_buffer part(*i);
      // An iovec has no const, also where it is written from.
      if (part.size() != 0) parts_[count_++] = {const_cast<void*>(part.data()), part.size()};
    }
  }

  bool empty() const noexcept { return count_ == 0; }
  bool single() const noexcept { return count_ == 1; }
  std::span<const ::iovec> all() const noexcept { return {parts_.data(), count_}; }
  std::span<std::byte> first() const noexcept {
    return {static_cast<std::byte*>(parts_[0].iov_base), parts_[0].iov_len};
  }

 private:
  std::array<::iovec, 64> parts_;  // set as far as count_
  std::size_t count_ = 0;
};

}  // namespace detail

/// Stream: net::tcp_stream, net::unix_stream, pipe_stream. Move-only, as they are.
template <class Stream>
class asio_stream {
 public:
  using next_layer_type = Stream;
  using lowest_layer_type = asio_stream;
  using executor_type = detail::fiber_executor;

  explicit asio_stream(Stream stream) noexcept : stream_(std::move(stream)) {}

  /// The stream of coir: for deadlines, shutdown(), close(), send_file().
  Stream& next_layer() noexcept { return stream_; }
  const Stream& next_layer() const noexcept { return stream_; }

  lowest_layer_type& lowest_layer() noexcept { return *this; }
  const lowest_layer_type& lowest_layer() const noexcept { return *this; }

  /// Runs what it is given in a fiber of the caller's runtime; outside of fibers that throws not_in_runtime. The
  /// functions of this class do not use it: Asio wants streams to have one.
  executor_type get_executor() const noexcept { return {}; }

  /// Reads what has come, at least a byte, unless the buffers are empty. The end is asio::error::eof. Blocks the fiber
  /// or thread. Throws boost::system::system_error, or sets or clears `error`; both throw `cancelled`.
  template <class MutableBufferSequence>
  std::size_t read_some(const MutableBufferSequence& buffers, boost::system::error_code& error) {
    const detail::io_vectors into(buffers);
    std::error_code failure;
    const std::size_t n = into.single() ? stream_.read_some(into.first(), failure) : stream_.readv(into.all(), failure);
    error = n == 0 && !failure && !into.empty() ? boost::asio::error::eof : to_asio_error(failure);
    return n;
  }
  template <class MutableBufferSequence>
  std::size_t read_some(const MutableBufferSequence& buffers) {
    boost::system::error_code error;
    const std::size_t n = read_some(buffers, error);
    if (error) throw boost::system::system_error(error, "coir: read_some");
    return n;
  }

  /// Writes as much as there is room for, at least a byte, unless the buffers are empty. Else as read_some().
  template <class ConstBufferSequence>
  std::size_t write_some(const ConstBufferSequence& buffers, boost::system::error_code& error) {
    const detail::io_vectors from(buffers);
    std::error_code failure;
    const std::size_t n =
        from.single() ? stream_.write_some(from.first(), failure) : stream_.writev(from.all(), failure);
    error = to_asio_error(failure);
    return n;
  }
  template <class ConstBufferSequence>
  std::size_t write_some(const ConstBufferSequence& buffers) {
    boost::system::error_code error;
    const std::size_t n = write_some(buffers, error);
    if (error) throw boost::system::system_error(error, "coir: write_some");
    return n;
  }

 private:
  Stream stream_;
};

}  // namespace coir
