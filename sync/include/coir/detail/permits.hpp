// A number of permits, handed out first come, first served, several at a time: the base of semaphore and shared_mutex.
// Not for users.
//
// One word has the number of free permits, and the mark *contended*: a waiter is queued, or a thread holds the lock of
// the queue.
//
//   not contended    a caller takes permits, or gives them back, by one exchange of the word
//   contended        only the holder of the lock changes the word. It clears the mark when it leaves an empty queue
//
// Invariant, whenever the lock is free: the first waiter in the queue asks for more permits than are free, or has given
// up. (Its wait was then claimed by a timer or a canceller, and it is about to take the lock, to remove itself and let
// others pass.) So a newcomer that finds a queue must join it, and every change (a release, or a waiter's removal) ends
// with grant(). A granted waiter has its permits from the claim on, whatever comes later.
//
// The owner of a permit may destroy the object, although the thread that has cleared the mark holds the lock for a
// moment longer. So the destructor takes the lock.
#pragma once

#include <atomic>
#include <cstdint>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/detail/wait_list.hpp>

namespace coir::inline COIR_ABI::detail {

class permits {
 public:
  using count = std::int64_t;

  enum class kind : std::uint8_t { semaphore, lock };  // waiting for a lock is no cancellation point

  constexpr permits(count total, const char* what, kind k) noexcept
      : total_(total), word_(word_of(total)), what_(what), kind_(k) {}
  ~permits() {
    waiters_.lock();
    waiters_.unlock();
    waiters_.check_unused(what_, this);
  }

  count total() const noexcept { return total_; }

  /// 0 <= n <= total(). Takes n permits if that needs no waiting.
  bool try_acquire(count n) noexcept {
    decide(operation::acquire, this);
    word seen = 0;
    const bool taken = take(n, seen) || ((seen & contended) != 0 && try_acquire_contended(n));
    if (!taken) decide_after_poll(operation::acquire, this);
    return taken;
  }

  /// An acquire that may have to wait; see queued_wait.hpp.
  class request final : public queued_wait {
   public:
    request(permits& from, count n) noexcept : from_(&from), wanted_(n) {}

    wait_place place() const noexcept { return from_->waiters_.place(); }
    wait_reason why() const noexcept { return {from_->what_, from_}; }
    bool is_lock() const noexcept { return from_->kind_ == kind::lock; }
    bool try_now() const noexcept {
      word seen = 0;
      return from_->take(wanted_, seen);
    }
    bool enter() noexcept;
    wake leave(wake how) noexcept;

   private:
    friend permits;
    permits* from_;
    count wanted_;
  };

  /// The same, blocking. False if the deadline came first. Throws `cancelled`, holding nothing; for a lock, only when a
  /// deadlock is unwound.
  bool acquire(count n, deadline until = no_deadline) {
    decide(operation::acquire, this);
    word seen = 0;
    return take(n, seen) || acquire_contended(n, until);
  }

  /// n >= 0. Gives n permits back and wakes the waiters for which they suffice. False, and nothing is changed, if more
  /// than total() would then be free, or fewer than `least_free` are free now.
  [[nodiscard]] bool release(count n, count least_free = 0) noexcept {
    decide(operation::release, this);
    word seen = word_.load(std::memory_order_relaxed);
    while ((seen & contended) == 0) {
      if (!fits(n, free_of(seen), least_free)) return false;
      // release: pairs with the acquire of their next owners.
      if (word_.compare_exchange_weak(seen, seen + word_of(n), std::memory_order_release, std::memory_order_relaxed))
        return true;
    }
    return release_contended(n, least_free);
  }

  /// Whether acquire(1) would have to wait.
  bool exhausted() noexcept;

 private:
  using word = std::uint64_t;
  static constexpr word contended = 1;

  static constexpr word word_of(count n) noexcept { return static_cast<word>(n) << 1; }
  static count free_of(word w) noexcept { return static_cast<count>(w >> 1); }
  bool fits(count n, count free, count least_free) const noexcept { return free >= least_free && n <= total_ - free; }

  /// Takes n permits without the lock. False: they are contended, or too few are free, as `seen` says.
  bool take(count n, word& seen) noexcept {
    seen = word_.load(std::memory_order_relaxed);
    while ((seen & contended) == 0 && n <= free_of(seen)) {
      // acquire: pairs with the releases of the permits' former owners.
      if (word_.compare_exchange_weak(seen, seen - word_of(n), std::memory_order_acquire, std::memory_order_relaxed))
        return true;
    }
    return false;
  }

  bool try_acquire_contended(count n) noexcept;
  bool acquire_contended(count n, deadline until);
  bool release_contended(count n, count least_free) noexcept;

  count seize() noexcept;
  void leave(count free) noexcept;
  void grant(count& free, wake_list& wakes) noexcept;

  const count total_;
  std::atomic<word> word_;
  const char* what_;
  const kind kind_;
  wait_list waiters_;
};

}  // namespace coir::detail
