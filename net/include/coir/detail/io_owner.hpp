// What streams, listeners and sockets have in common: the descriptor that they own. Move-only.
#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include <coir/detail/io_handle.hpp>

namespace coir::detail {

class io_owner {
 public:
  /// Ends it: who waits here gets net::errc::closed, and so does whoever comes later. The number is given back when
  /// they have left. From any fiber or thread; again does nothing.
  void close() noexcept { handle_.close(); }
  bool is_open() const noexcept { return handle_.is_open(); }

  /// The number, still owned by this, in non-blocking mode; -1 if it is closed.
  int native_handle() const noexcept { return handle_.number(); }

 protected:
  io_owner() noexcept = default;
  explicit io_owner(io_handle handle) noexcept : handle_(std::move(handle)) {}
  io_owner(io_owner&&) noexcept = default;
  io_owner& operator=(io_owner&&) noexcept = default;  // closes what it had
  ~io_owner() = default;

  using limit = std::optional<std::chrono::steady_clock::time_point>;
  void set_limit(io_way way, const limit& until) noexcept {
    handle_.set_limit(way, until ? deadline_at(*until) : no_deadline);
  }

  io_handle handle_;

 private:
  friend struct io_owner_access;
};

/// For select's cases.
struct io_owner_access {
  static const io_handle& handle(const io_owner& of) noexcept { return of.handle_; }
};

}  // namespace coir::detail
