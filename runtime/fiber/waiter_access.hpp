// The sleeper's side of the claim word, which only the runtime may write.
#pragma once

#include <cstddef>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>

namespace coir::inline COIR_ABI::detail {

struct waiter_access {
  static constexpr std::size_t offset_of_word() noexcept { return offsetof(waiter, word_); }  // for debuggers

  static bool is_fiber(const waiter& w) noexcept { return w.kind_ == waiter::kind::fiber; }
  static bool is_stackless(const waiter& w) noexcept { return w.kind_ == waiter::kind::stackless; }

  // Reasons to give up (park.hpp).
  static constexpr std::uint32_t for_good = 1, one_expired = 2;

  // release: for stop_token(), which reads it with acquire.
  static void set_for_good(waiter& w) noexcept { w.reasons_.fetch_or(for_good, std::memory_order_release); }
  static void add_expired(waiter& w) noexcept { w.reasons_.fetch_add(one_expired, std::memory_order_relaxed); }
  static void drop_expired(waiter& w) noexcept { w.reasons_.fetch_sub(one_expired, std::memory_order_relaxed); }
  static void clear_reasons(waiter& w) noexcept { w.reasons_.store(0, std::memory_order_relaxed); }
  static bool is_for_good(const waiter& w) noexcept {
    return (w.reasons_.load(std::memory_order_acquire) & for_good) != 0;
  }
  // relaxed: behind the light fence of begin_wait().
  static bool must_give_up(const waiter& w) noexcept {
    return w.reasons_.load(std::memory_order_relaxed) != 0 && !is_uncancellable(w);
  }

  // Counts that keep the reasons from being heeded: the number of open lock_waits in the lower half of uncancellable_,
  // and that of uncancellable sections in the upper half. relaxed: only the sleeper writes it, and the word carries it
  // to others.
  static constexpr std::uint32_t one_lock_wait = 1, one_section = 1U << 16;

  static bool is_uncancellable(const waiter& w) noexcept {
    return w.uncancellable_.load(std::memory_order_relaxed) != 0;
  }
  /// Whether not even the unwinding of a deadlock may end its waits.
  static bool is_in_section(const waiter& w) noexcept {
    return w.uncancellable_.load(std::memory_order_relaxed) >= one_section;
  }
  static void open_uncancellable(waiter& w) noexcept { add_uncancellable(w, one_section); }
  static void close_uncancellable(waiter& w) noexcept { add_uncancellable(w, -one_section); }
  static void open_lock_wait(waiter& w) noexcept { add_uncancellable(w, one_lock_wait); }
  static void close_lock_wait(waiter& w) noexcept { add_uncancellable(w, -one_lock_wait); }
  static void copy_uncancellable(waiter& to, const waiter& from) noexcept {
    to.uncancellable_.store(from.uncancellable_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  static void reset_uncancellable(waiter& w) noexcept { w.uncancellable_.store(0, std::memory_order_relaxed); }

  /// For a control block in the place of an earlier one: a late claimer must not take this block's waits for those of
  /// the earlier one.
  static void seed(waiter& w, std::uint32_t incarnation) noexcept {
    w.word_.store(std::uint64_t{incarnation} << 40 | waiter::idle, std::memory_order_relaxed);
  }

  // release: an outside claimer that sees `parking` also sees what the sleeper wrote before (uncancellable_).
  static void begin(waiter& w) noexcept {
    const std::uint64_t generation = w.word_.load(std::memory_order_relaxed) & ~waiter::state_mask;
    w.word_.store(generation + waiter::state_mask + 1 + waiter::parking, std::memory_order_release);
  }

  static void abandon(waiter& w) noexcept {
    const std::uint64_t generation = w.word_.load(std::memory_order_relaxed) & ~waiter::state_mask;
    w.word_.store(generation | waiter::idle, std::memory_order_release);
  }

  // release: a claimer sees the saved context and the linked nodes.
  static void publish(waiter& w) noexcept {
    const std::uint64_t generation = w.word_.load(std::memory_order_relaxed) & ~waiter::state_mask;
    w.word_.store(generation | waiter::waiting, std::memory_order_release);
  }

  // Instead of publish(): cancelled before it slept. Nobody can claim it.
  static void refuse(waiter& w) noexcept {
    const std::uint64_t generation = w.word_.load(std::memory_order_relaxed) & ~waiter::state_mask;
    w.word_.store(generation | waiter::cancelled, std::memory_order_release);
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

 private:
  static void add_uncancellable(waiter& w, std::uint32_t n) noexcept {
    w.uncancellable_.store(w.uncancellable_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
};

}  // namespace coir::detail
