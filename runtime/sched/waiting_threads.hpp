// The plain threads that wait in run() or wait() (quiescence.cpp).
//
// Invariant (no lost event): a waiting thread loads event_ before it looks. A thread that may have ended its wait
// changes event_ after that. So a waiting thread that has looked too early does not go to sleep.
//
// A thread watches while it sleeps in a runtime that looks stuck: it looks again by itself, so the workers, which may
// go to sleep many times meanwhile, do not wake it each time.
#pragma once

#include <atomic>
#include <cstdint>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>

#include "base/futex.hpp"

namespace coir::inline COIR_ABI::detail {

class waiting_threads {
 public:
  bool any() const noexcept { return count_.load(std::memory_order_seq_cst) != 0; }
  bool anybody_watches() const noexcept { return watching_.load(std::memory_order_seq_cst) != 0; }

  void notify() noexcept {
    event_.fetch_add(1, std::memory_order_acq_rel);
    futex_wake(event_, 1 << 30);
  }

  std::uint32_t event() const noexcept { return event_.load(std::memory_order_acquire); }

  /// Sleeps unless there has been another event since `seen`.
  void sleep(std::uint32_t seen, deadline until = no_deadline) noexcept { futex_wait(event_, seen, until); }

  void watch(std::uint32_t seen, deadline until) noexcept {
    watching_.fetch_add(1, std::memory_order_seq_cst);
    futex_wait(event_, seen, until);
    watching_.fetch_sub(1, std::memory_order_seq_cst);
  }

  /// While an object lives, the calling thread is one of them. If others remain at its end, they are notified, so that
  /// one takes over what this thread did.
  class member {
   public:
    explicit member(waiting_threads& all) noexcept : all_(all) { all_.count_.fetch_add(1, std::memory_order_seq_cst); }
    ~member() {
      if (!left_ && all_.count_.fetch_sub(1, std::memory_order_seq_cst) > 1) all_.notify();
    }
    member(const member&) = delete;
    member& operator=(const member&) = delete;

    /// False, and it stays: there is no other.
    bool leave_to_others() noexcept {
      std::uint32_t n = all_.count_.load(std::memory_order_relaxed);
      while (n > 1 && !left_) left_ = all_.count_.compare_exchange_weak(n, n - 1, std::memory_order_seq_cst);
      if (left_) all_.notify();
      return left_;
    }

   private:
    waiting_threads& all_;
    bool left_ = false;
  };

 private:
  std::atomic<std::uint32_t> event_{0};
  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint32_t> watching_{0};
};

}  // namespace coir::detail
