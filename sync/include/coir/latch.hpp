// latch: a count that goes down once, and those who wait until it is zero; as std::latch, for fibers and OS threads
// alike. Thread safety: all members at once. Each count_down() happens before the returns of wait() and of a true
// try_wait(). May be destroyed as soon as wait() returns; but a wait() that is being cancelled needs it until it has
// thrown.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <utility>

#include <coir/detail/countdown.hpp>

namespace coir {

class latch {
 public:
  /// Throws std::invalid_argument if negative or more than max().
  constexpr explicit latch(std::int64_t expected) : count_(checked(expected), "latch") {}
  latch(const latch&) = delete;
  latch& operator=(const latch&) = delete;

  static constexpr std::int64_t max() noexcept { return detail::countdown::max; }

  /// Never blocks. Throws std::logic_error if the count is less than n, std::invalid_argument if n is negative.
  void count_down(std::int64_t n = 1) {
    if (checked(n) > 0) count_.subtract(n);
  }

  /// Whether the count is zero.
  bool try_wait() const noexcept { return count_.zero(); }

  /// Blocks until the count is zero. Throws `cancelled`, but only if it would block.
  void wait() const { count_.wait(); }

  /// `co_await l.async_wait()` in a coir::async: as wait(), but that the coroutine waits, and not a fiber.
  detail::queue_awaiter<detail::countdown::zero_wait> async_wait() const noexcept {
    return detail::queue_awaiter<detail::countdown::zero_wait>(std::in_place, count_);
  }

  /// count_down(n), wait(). May be destroyed when all who wait, or arrive and wait, but the last to arrive have
  /// returned.
  void arrive_and_wait(std::int64_t n = 1) {
    if (checked(n) > 0 && count_.subtract(n)) return;  // who has waited may have destroyed it by now
    wait();
  }

  /// `co_await l.async_arrive_and_wait(n)`: likewise. Arrives when it is awaited; throws as count_down(), and
  /// `cancelled`, when the arrival stands.
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
