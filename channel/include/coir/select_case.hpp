// The untyped half of select: what a case is to the core in select.cpp, and the core's one function. Not for users.
//
// Invariants:
//  1. Exactly one case takes effect. A node of a losing case is unlinked before the select returns, throws, or runs a
//     handler; handlers and stop callbacks' destructors run with no lock held.
//  2. The locks of all channels of the select, taken in the order of their addresses, are held from before the last
//     look at readiness until the sleeper's word says `waiting`, or `otherwise` is decided. So nothing becomes ready
//     between the look and the sleep.
//  3. A sleeper that was woken locks every channel of its cases, but the one whose case fired, before it leaves. For
//     whoever is still releasing the locks reads its frame until the last one is free.
//  4. A stop request is seen: see stop_waiter.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <utility>

#include <coir/alarm.hpp>
#include <coir/chan_core.hpp>
#include <coir/park.hpp>
#include <coir/spin_lock.hpp>
#include <coir/stop_hook.hpp>

namespace coir::detail {

/// How somebody who holds no lock, and may come before the wait has begun, ends it: a stop callback, an alarm.
///
/// It stores come_ and then loads word_, the sleeper stores word_ and then loads come_, all four seq_cst: at least one
/// of them sees the other's store. Sees the sleeper it, it takes its wait back; sees the other the word, it claims that
/// very wait, if it is not over. If both see, the claim fails, since the word's generation has moved on.
class early_claim {
 public:
  void prepare(waiter& self) noexcept {
    come_.store(false, std::memory_order_relaxed);
    word_.store(0, std::memory_order_relaxed);
    self_ = &self;
  }

  /// Publishes the word of the wait that has begun. True: the other has come before; do not sleep.
  bool look(std::uint64_t word) noexcept {
    word_.store(word, std::memory_order_seq_cst);
    return come_.load(std::memory_order_seq_cst);
  }

  /// By the other. True: it has ended the wait; this may be gone.
  bool end_wait(waiter::state as, wait_node* node = nullptr) noexcept {
    come_.store(true, std::memory_order_seq_cst);
    const std::uint64_t word = word_.load(std::memory_order_seq_cst);
    waiter& sleeper = *self_;
    if (word == 0 || !sleeper.claim_from_outside(word, as, node)) return false;
    unpark(sleeper);
    return true;
  }

 private:
  std::atomic<bool> come_{false};
  std::atomic<std::uint64_t> word_{0};  // 0: no wait has begun (a word that waits is never 0)
  waiter* self_ = nullptr;
};

/// Turns a stop request into the claim of a sleeping select. Sleeper: arm() with no lock held; begin_wait(); look(), if
/// true the stop case is ready; park; disarm() with no lock held (it waits for a callback that runs).
class stop_waiter {
 public:
  explicit stop_waiter(std::stop_token token) noexcept : token_(std::move(token)) {}

  bool possible() const noexcept { return token_.stop_possible(); }
  bool requested() const noexcept { return token_.stop_requested(); }

  void arm(waiter& self, wait_node& node) {
    claim_.prepare(self);
    node_ = &node;
    hook_.set(token_, callback{this});
  }
  void disarm() noexcept { hook_.reset(); }

  bool look(std::uint64_t word) noexcept { return claim_.look(word); }

 private:
  struct callback {
    stop_waiter* owner;
    void operator()() const noexcept { owner->claim_.end_wait(waiter::fired, owner->node_); }
  };

  std::stop_token token_;
  early_claim claim_;
  wait_node* node_ = nullptr;
  stop_hook<callback> hook_;
};

/// Turns a deadline into the claim of a coroutine's sleeping select. (A fiber's is a part of park().) Armed early,
/// since what it takes to arm an alarm (memory, perhaps a thread) has to be had before a lock is held and before the
/// wait has begun, when others spin. Coroutine: arm() with no lock held; begin_wait(); look(); park; settle() with no
/// lock held.
class deadline_waiter {
 public:
  /// Throws std::bad_alloc, std::system_error.
  void arm(waiter& self, deadline until) {
    claim_.prepare(self);
    alarm_.arm(until, &fire, this);
  }

  /// True: the deadline has come before; do not sleep.
  bool look(std::uint64_t word) noexcept { return claim_.look(word); }

  /// After the wait, or instead of it; if it has timed out the alarm's last touch was the claim. Nothing touches this
  /// any more then.
  void settle() noexcept {
    if (!alarm_.disarm())
      for (backoff wait; !over_.load(std::memory_order_acquire);) wait();
  }

 private:
  static void fire(void* arg, std::uint64_t) noexcept {
    auto* const self = static_cast<deadline_waiter*>(arg);
    if (!self->claim_.end_wait(waiter::timed_out))
      self->over_.store(true, std::memory_order_release);  // pairs with settle(); the last touch
  }

  alarm alarm_;
  early_claim claim_;
  std::atomic<bool> over_{false};
};

/// One case, on the stack of who selects (or in its select_set).
struct select_case {
  enum class kind : std::uint8_t { receive, send, timeout, stop, otherwise };

  // NOLINTNEXTLINE(modernize-use-equals-default): that would clear the node where it is value-initialized
  select_case() noexcept {}  // leaves the node alone: most selects never need it

  kind what{};
  bool relative = false;      ///< timeout: `when` counts from the beginning of the wait
  chan_core* core = nullptr;  ///< receive, send; null: the nil channel
  void* slot = nullptr;   ///< receive: an empty std::optional<T> to fill; send: the T to move from; stop: its waiter
  std::int64_t when = 0;  ///< timeout: nanoseconds
  union {
    wait_node node;  ///< made when the wait begins
  };

  bool on_channel() const noexcept { return core != nullptr; }
  stop_waiter& stop() const noexcept { return *static_cast<stop_waiter*>(slot); }

  /// Hint, without locks.
  bool seems_ready() const noexcept {
    if (core != nullptr) return what == kind::receive ? core->may_receive() : core->may_send();
    return what == kind::stop && stop().requested();
  }
};

/// Waits until one of the cases takes effect; returns its index. `order` is room for n indices. Throws closed_channel
/// if the chosen case sends to a closed channel, `cancelled`.
std::size_t select_one(select_case* cases, std::size_t n, std::uint32_t* order);

/// Lets one of the cases that seem ready take effect, one lock at a time. Returns its index, or n. Throws
/// closed_channel.
std::size_t select_seeming_ready(select_case* cases, std::size_t n);

/// One of the set bits, uniformly. At least one is set.
unsigned random_bit_slowly(std::uint64_t set) noexcept;
inline unsigned random_bit(std::uint64_t set) noexcept {
  if ((set & (set - 1)) == 0) return static_cast<unsigned>(__builtin_ctzll(set));
  return random_bit_slowly(set);
}

}  // namespace coir::detail
