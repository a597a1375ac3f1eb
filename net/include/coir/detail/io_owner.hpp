// The base of streams, listeners and sockets: it owns their descriptor. Move-only.
#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/io_handle.hpp>

namespace coir::inline COIR_ABI::detail {

/// The members of all streams, listeners and sockets. Move-only.
class io_owner {
 public:
  /// Closes it. Calls that wait here, and all later calls, fail with net::errc::closed. The number is given back to the
  /// kernel when the last of these calls has left. May be called from any fiber or thread; a second call does nothing.
  void close() noexcept { handle_.close(); }
  /// Whether it has a descriptor that was not closed. Does not block.
  bool is_open() const noexcept { return handle_.is_open(); }

  /// The number, which this object still owns and which is in non-blocking mode; -1: closed.
  int native_handle() const noexcept { return handle_.number(); }

 protected:
  io_owner() noexcept = default;
  /// For the classes derived from it.
  explicit io_owner(io_handle handle) noexcept : handle_(std::move(handle)) {}
  /// Takes over the descriptor; the other is closed afterwards.
  io_owner(io_owner&&) noexcept = default;
  /// The same, after it has closed its own.
  io_owner& operator=(io_owner&&) noexcept = default;  // closes what it had
  ~io_owner() = default;

  using limit = std::optional<std::chrono::steady_clock::time_point>;  ///< nullopt: no limit
  /// Sets the time until which calls of one way may block, for later calls and for calls that wait already.
  void set_limit(io_way way, const limit& until) noexcept {
    handle_.set_limit(way, until ? deadline_at(*until) : no_deadline);
  }

  io_handle handle_;  ///< the descriptor

 private:
  friend struct io_owner_access;
};

/// Access for the cases of select().
struct io_owner_access {
  static const io_handle& handle(const io_owner& of) noexcept { return of.handle_; }
};

}  // namespace coir::detail
