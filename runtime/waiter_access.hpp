// The sleeper's side of the claim word, which only the runtime may write.
#pragma once

#include <coir/park.hpp>

namespace coir::detail {

struct waiter_access {
  static bool is_fiber(const waiter& w) noexcept { return w.kind_ == waiter::kind::fiber; }

  // release: an outside claimer that sees `parking` also sees what the sleeper wrote before (uncancellable_depth).
  static void begin(waiter& w) noexcept {
    const std::uint64_t generation = w.word_.load(std::memory_order_relaxed) & ~waiter::state_mask;
    w.word_.store(generation + waiter::state_mask + 1 + waiter::parking, std::memory_order_release);
  }

  static void abandon(waiter& w) noexcept {
    const std::uint64_t generation = w.word_.load(std::memory_order_relaxed) & ~waiter::state_mask;
    w.word_.store(generation | waiter::idle, std::memory_order_release);
  }

  // release: whoever claims sees the saved context and the linked nodes.
  static void publish(waiter& w) noexcept {
    const std::uint64_t generation = w.word_.load(std::memory_order_relaxed) & ~waiter::state_mask;
    w.word_.store(generation | waiter::waiting, std::memory_order_release);
  }

  static wake outcome(const waiter& w) noexcept {
    // acquire: pairs with the claimer's exchange
    switch (w.word_.load(std::memory_order_acquire) & waiter::state_mask) {
      case waiter::timed_out:
        return wake::timed_out;
      case waiter::cancelled:
        return wake::cancelled;
      default:
        return wake::fired;
    }
  }

  static waiter::state state_of(const waiter& w) noexcept {
    return static_cast<waiter::state>(w.word_.load(std::memory_order_acquire) & waiter::state_mask);
  }

  static std::uint64_t acquire_word(const waiter& w) noexcept { return w.word_.load(std::memory_order_acquire); }
};

}  // namespace coir::detail
