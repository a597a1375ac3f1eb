// A std::stop_callback of coir's own, to be set and reset by fibers. Not for users.
#pragma once

#include <optional>
#include <stop_token>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/spin_lock.hpp>

namespace coir::inline COIR_ABI::detail {

/// Runs f once the stop is requested, until it is reset; reset() returns when f runs no more.
///
/// f must not block. A std::stop_callback tells by the *thread* whether it is destroyed inside its own call, and then
/// does not wait for that call's end. Between two fibers that is right only because the fiber that ran f on this
/// thread has come to the end of f there, before it made room for this fiber.
template <class F>
class stop_hook {
 public:
  stop_hook() = default;
  stop_hook(const stop_hook&) = delete;
  stop_hook& operator=(const stop_hook&) = delete;
  ~stop_hook() { announce_thread_order(); }

  /// Calls f here and now if the stop was requested before.
  void set(const std::stop_token& token, F f) { callback_.emplace(token, std::move(f)); }
  void reset() noexcept {
    announce_thread_order();
    callback_.reset();
  }

 private:
  std::optional<std::stop_callback<F>> callback_;
};

}  // namespace coir::detail
