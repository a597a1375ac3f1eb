// A fiber's std::stop_source, made when the fiber first asks for its token.
// This is the one part of the runtime that ThreadSanitizer instruments: it shares std::stop_source's counts with user
// code.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>

#include <coir/detail/abi.hpp>
#include <coir/detail/spin_lock.hpp>

namespace coir::inline COIR_ABI::detail {

class fiber_stop {
 public:
  /// By the fiber itself.
  std::stop_token token();
  bool made() const noexcept { return source_ != nullptr; }

  /// By the fiber itself, at its end.
  void drop() noexcept {
    if (made()) [[unlikely]]
      drop_made();
  }

  /// By the owner of both: a fiber that takes over a source or leaves it behind.
  void exchange(fiber_stop& other) noexcept;

  /// By anyone, at any time.
  std::optional<std::stop_source> copy();

 private:
  void drop_made() noexcept;

  spin_lock lock_;  // innermost; the fiber itself may look at source_ without it
  std::unique_ptr<std::stop_source> source_;
};

/// Requests the stop and drops the source. That runs callbacks, so it is called with no lock held.
void signal_stop(std::stop_source&& source);

}  // namespace coir::detail
