// latch: a count that goes down to zero once. Fibers and OS threads can wait for zero. As std::latch.
//
// Thread safety: all members may be called at the same time. Happens-before: each count_down() happens before the
// return of wait(), and of a try_wait() that returns true. A latch may be destroyed as soon as wait() has returned. A
// wait() that is being cancelled needs the latch until it has thrown.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/countdown.hpp>
#include <coir/detail/decision.hpp>

namespace coir::inline COIR_ABI {

/// As std::latch, for fibers and threads.
class latch {
 public:
  /// Throws std::invalid_argument if negative or more than max().
  constexpr explicit latch(std::int64_t expected) : count_(checked(expected), "latch") {}
  latch(const latch&) = delete;
  latch& operator=(const latch&) = delete;

  /// The largest count.
  static constexpr std::int64_t max() noexcept { return detail::countdown::max; }

  /// Never blocks. Throws std::logic_error if the count is less than n, std::invalid_argument if n is negative.
  void count_down(std::int64_t n = 1) {
    if (checked(n) > 0) count_.subtract(n);
  }

  /// Whether the count is zero. Never blocks.
  bool try_wait() const noexcept {
    detail::decide(detail::operation::wait, this);
    const bool zero = count_.zero();
    if (!zero) detail::decide_after_poll(detail::operation::wait, this);
    return zero;
  }

  /// Blocks until the count is zero. Throws `cancelled`, but only if it would block.
  void wait() const { count_.wait(); }

  /// `co_await l.async_wait()` in a coir::async: as wait(), but the coroutine waits instead of a fiber.
  detail::queue_awaiter<detail::countdown::zero_wait> async_wait() const noexcept {
    return detail::queue_awaiter<detail::countdown::zero_wait>(std::in_place, count_);
  }

  /// count_down(n), then wait(). Throws as these do. The latch may be destroyed when all of these calls have returned,
  /// except the call of the last to arrive.
  void arrive_and_wait(std::int64_t n = 1) {
    if (checked(n) > 0 && count_.subtract(n)) return;  // a waiter may have destroyed the latch by now
    wait();
  }

  /// `co_await l.async_arrive_and_wait(n)` in a coir::async: as arrive_and_wait(), but the coroutine waits instead of a
  /// fiber. It arrives when it is awaited. Throws as count_down(), and `cancelled`; the arrival then stands.
  detail::queue_awaiter<detail::countdown::arrival> async_arrive_and_wait(std::int64_t n = 1) {
    return detail::queue_awaiter<detail::countdown::arrival>(std::in_place, count_, checked(n));
  }

 private:
  static constexpr std::int64_t checked(std::int64_t n) {
    if (n < 0 || n > max()) throw std::invalid_argument("coir: a latch's count out of range");
    return n;
  }

  mutable detail::countdown count_;  // mutable: wait() is const, as std::latch's
};

}  // namespace coir
