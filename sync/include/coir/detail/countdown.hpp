// A count and the waiters for its zero: the base of wait_group and latch. Not for users.
//
// The word: count << 1 | waiting. `waiting` is set under the lock of waiters_, while the count is positive, and says
// that a waiter is queued. The thread that takes the count to zero while it is set is the *releaser*. The word is then
// "0, waiting" until the releaser is done: it claims all waiters under the lock, unlocks, and clears `waiting` as its
// last touch. Only then does it unpark them. So a thread that sees the word 0 may destroy the countdown. No thread
// returns from wait() while the word is "0, waiting": new and cancelled waiters spin for that instant. So does add(),
// because it must not revive a count that is being released.
#pragma once

#include <atomic>
#include <cstdint>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/detail/wait_list.hpp>

namespace coir::inline COIR_ABI::detail {

class countdown {
 public:
  using count_type = std::int64_t;
  static constexpr count_type max = INT64_MAX >> 2;

  constexpr explicit countdown(count_type n, const char* what) noexcept : word_(n * one), what_(what) {}
  ~countdown() { waiters_.check_unused(what_, this); }

  /// n > 0. Throws std::length_error beyond max.
  void add(count_type n) {
    decide(operation::count_down, this);
    count_type seen = word_.load(std::memory_order_relaxed);
    // relaxed: the start of the fiber that will call subtract() publishes everything before add().
    if (seen == waiting || n > max - (seen >> 1) ||
        !word_.compare_exchange_strong(seen, seen + n * one, std::memory_order_relaxed)) [[unlikely]]
      add_contended(n);
  }

  /// n > 0. Throws std::logic_error, and changes nothing, if the count is less. True: the count is zero, and
  /// this may be gone.
  bool subtract(count_type n) {
    decide(operation::count_down, this);
    count_type seen = word_.load(std::memory_order_relaxed);
    // release: pairs with the acquire in wait(). acquire: the releaser passes on what all others did before.
    do {
      if (seen >> 1 < n) [[unlikely]]
        throw_negative();
    } while (!word_.compare_exchange_weak(seen, seen - n * one, std::memory_order_acq_rel, std::memory_order_relaxed));
    seen -= n * one;
    if (seen == waiting) [[unlikely]]
      release_all();
    return seen <= waiting;
  }

  /// Blocks until the count is zero. Every subtract() happens before it returns. Throws `cancelled`.
  void wait() {
    decide(operation::wait, this);
    if (!zero()) wait_contended();
  }

  /// A wait until the count is zero; see queued_wait.hpp.
  class zero_wait : public queued_wait {
   public:
    explicit zero_wait(countdown& of) noexcept : of_(&of) {}

    wait_place place() const noexcept { return of_->waiters_.place(); }
    wait_reason why() const noexcept { return {of_->what_, of_}; }
    bool try_now() const noexcept { return of_->zero(); }
    bool enter() noexcept;
    wake leave(wake how) noexcept;

   protected:
    countdown* of_;
  };

  /// A wait that subtracts n first.
  class arrival final : public zero_wait {
   public:
    arrival(countdown& of, count_type n) noexcept : zero_wait(of), n_(n) {}

    /// Throws as subtract(). A waiter may destroy the countdown as soon as it is zero.
    bool try_now() const { return (n_ > 0 && of_->subtract(n_)) || zero_wait::try_now(); }

   private:
    count_type n_;
  };

  bool zero() const noexcept { return word_.load(std::memory_order_acquire) == 0; }

 private:
  static constexpr count_type waiting = 1, one = 2;

  void add_contended(count_type n);
  [[noreturn]] void throw_negative() const;
  void release_all() noexcept;
  void wait_contended();
  void stop_waiting() noexcept;

  std::atomic<count_type> word_;
  const char* what_;  // for reports
  wait_list waiters_;
};

}  // namespace coir::detail
