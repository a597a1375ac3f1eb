// A number of permits, handed out first come, first served, several at a time: what semaphore and shared_mutex are made
// of. Not for users.
//
// Invariant, whenever the lock is free: the first in the queue asks for more permits than are free, or has given up
// (its wait was claimed by a timer or a canceller) and is about to come for the lock, to remove itself and let others
// pass. So a newcomer that finds anybody queued must queue; and every change (a release, or a waiter's removal) ends
// with grant(). A granted waiter has its permits from the claim on, whatever comes later.
#pragma once

#include <cstdint>

#include <coir/wait_list.hpp>

namespace coir::detail {

class permits {
 public:
  using count = std::int64_t;

  constexpr permits(count total, const char* what) noexcept : total_(total), free_(total), what_(what) {}
  ~permits() { waiters_.check_unused(what_, this); }

  count total() const noexcept { return total_; }

  /// 0 <= n <= total(). Takes n permits if that needs no waiting.
  bool try_acquire(count n) noexcept;

  /// The same, blocking: false if the deadline came first. Throws `cancelled`, holding nothing.
  bool acquire(count n, deadline until = no_deadline);

  /// n >= 0. Gives n permits back and wakes whom they suffice. False, and nothing is changed, if more than total()
  /// would then be free, or fewer than `least_free` are free now.
  [[nodiscard]] bool release(count n, count least_free = 0) noexcept;

  /// Whether acquire(1) would have to wait.
  bool exhausted() noexcept;

 private:
  struct node : wait_node {
    count wanted = 0;
  };

  bool must_wait(count n) const noexcept { return !waiters_.empty() || n > free_; }
  void grant(wake_list& wakes) noexcept;

  const count total_;
  count free_;  // guarded by the lock of waiters_
  const char* what_;
  wait_list waiters_;
};

}  // namespace coir::detail
