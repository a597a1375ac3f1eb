// One wait in one queue, for every kind of waiter: a fiber or thread, whose call blocks, or a coroutine, which awaits.
// Each primitive describes its wait once, as a class; block() and queue_awaiter are the two ways through it. So all
// waiters are in one queue, in the order they came, and the clean-up after a failed wait is written once. Not for
// users.
//
// A description W has:
//
//   wait_place place()     the queue, and the lock that guards it
//   wait_node& node()      its node in that queue; `who` is null until it sleeps
//   wait_reason why()      for reports
//   bool is_lock()         locking is no cancellation point: a lock_wait is open meanwhile
//   bool try_now()         a coroutine's first attempt, without the lock; may throw, and then nothing has begun
//   bool enter()           takes the lock. True: no need to wait, and the lock is free again. False: the lock is held,
//                          and the state that others read (a mark "somebody waits", say) tells of this waiter
//   wake leave(wake how)   after enter() has returned false, and a wait that ended as timed_out or cancelled: the lock
//                          is held, the node is not queued. Mends the state for the other waiters; releases the
//                          lock. Returns how the wait ended after all: its grant may have come meanwhile
//   outcome(wake how)      optional: the result of the co_await, instead of the common one (see queue_awaiter)
//
// The steps, and where they are taken:
//
//   step                        fiber, thread              coroutine
//   first attempt               the caller of block()      await_ready(), which then arms the deadline
//   enter(), begin_wait, link   block()                    await_suspend()
//   publish, release the lock   the context after the switch  its carrier, after resume() of the frame has returned
//   claim                       the granter, under the lock; the timer; a canceller
//   lock, unlink, leave()       block()                    await_resume()
//
// Invariants, beside those of park.hpp and stackless.hpp:
//  1. The lock is held from enter() until the sleeper can be claimed: nothing is granted between the look and the
//     sleep. For a fiber or thread whose begin_wait() refuses, it is free before leave(), as after a sleep.
//  2. For each enter() that returned false there is either one claim as fired or one leave(). A fired waiter has
//     its grant, and does not touch the primitive again, which may be gone; a cancellation that comes later is seen by
//     its next wait. A waiter that ends otherwise has got nothing: a granter has skipped its node, or finds it
//     unlinked.
//  3. leave() runs before the caller continues or learns anything, so no permit stays with a waiter that gave up.
//  4. A coroutine's deadline is armed before the lock is taken, and may come before the wait has begun (early_claim).
//     It is settled before the coroutine goes on, with no lock held; its frame may end then.
//  5. An awaiter serves once.
#pragma once

#include <coroutine>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
// clang-format off
#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/detail/deadline_waiter.hpp>
#include <coir/detail/park.hpp>
#include <coir/detail/spin_lock.hpp>
#include <coir/detail/stackless.hpp>
// clang-format on
namespace coir::inline COIR_ABI::detail {

/// The part of a description that is the same for most; `W` is derived from it, and is its own node.
class queued_wait : public wait_node {
 public:
  queued_wait() noexcept = default;
  queued_wait(const queued_wait&) = delete;
  queued_wait& operator=(const queued_wait&) = delete;

  wait_node& node() noexcept { return *this; }
  static constexpr bool is_lock() noexcept { return false; }
  static constexpr bool try_now() noexcept { return false; }
};

// ---- fibers and threads --------------------------------------------------------------------------------------------

/// The calling fiber or thread waits. No lock is held, before and after.
template <class W>
[[nodiscard]] wake block(W& wait, deadline until = no_deadline) {
  if (wait.enter()) return wake::fired;
  std::optional<lock_wait> not_interrupted;
  if (wait.is_lock()) not_interrupted.emplace(this_waiter());
  const wake how = sleep_in(wait.place(), wait.node(), wait.why(), until);
  return how == wake::fired ? how : wait.leave(how);
}

// ---- coroutines ----------------------------------------------------------------------------------------------------

/// What a coroutine's wait has instead of a deadline.
class no_deadline_to_await {
 public:
  static constexpr bool timed = false;
  static constexpr void arm() noexcept {}
  static constexpr bool due(std::uint64_t) noexcept { return false; }
  static constexpr bool due() noexcept { return false; }
  static constexpr void settle() noexcept {}
};

class deadline_to_await {
 public:
  static constexpr bool timed = true;

  explicit deadline_to_await(deadline until) noexcept : until_(until) {}

  /// In a coroutine, with no lock held. Throws std::bad_alloc, std::system_error.
  void arm();
  bool due() const noexcept { return due_; }
  /// After begin_wait(), which left that word.
  bool due(std::uint64_t word) noexcept { return alarm_.look(word); }
  /// With no lock held, after the wait, which has or has not ended by it.
  void settle() noexcept;
  void has_ended_it() noexcept { armed_ = false; }  // its claim was its last touch

 private:
  deadline until_;
  deadline_waiter alarm_;
  bool armed_ = false;
  bool due_ = false;
};

/// For one that must sleep: await_suspend()'s part behind enter(), under the lock. fired: it will sleep; its carrier
/// releases the lock. Else it has ended before it began; the lock is held, the node unlinked.
template <class Deadline>
[[nodiscard]] wake suspend_in(stackless& self, std::coroutine_handle<> where, wait_place at, wait_node& node,
                              wait_reason why, Deadline& limit) noexcept {
  wake ended = wake::fired;
  if (limit.due()) {
    ended = wake::timed_out;
  } else if (!begin_wait(self)) {
    ended = wake::cancelled;
  } else if (limit.due(self.word())) {
    abandon_wait(self);
    ended = wake::timed_out;
  } else {
    node.who = &self;
    if (!node.queued) at.queue.push_back(node);
    park(self, where, &at.lock, why);
    return wake::fired;
  }
  at.queue.remove(node);
  return ended;
}

/// `co_await` of a description. Throws `cancelled`; otherwise returns nothing, or, if it has a deadline, whether the
/// grant has come; or returns or throws as W::outcome(how) does. Awaiting it a second time throws std::logic_error.
template <class W, class Deadline = no_deadline_to_await>
class [[nodiscard]] queue_awaiter : public async_awaiter_mark {
 public:
  /// No deadline.
  template <class... Args>
    requires(!Deadline::timed)
  explicit queue_awaiter(std::in_place_t, Args&&... args) noexcept : wait_(std::forward<Args>(args)...) {}
  template <class... Args>
    requires(Deadline::timed)
  explicit queue_awaiter(deadline until, Args&&... args) noexcept : wait_(std::forward<Args>(args)...), limit_(until) {}
  queue_awaiter(const queue_awaiter&) = delete;
  queue_awaiter& operator=(const queue_awaiter&) = delete;

  bool await_ready() {
    decide(operation::wait, this);
    begin_await(wait_.node());
    if (wait_.try_now()) return true;
    limit_.arm();
    return false;
  }

  template <async_coroutine Promise>
  bool await_suspend(std::coroutine_handle<Promise> where) noexcept {
    return suspend(where);
  }

  auto await_resume() {
    const wake how = resume();
    if constexpr (requires { wait_.outcome(how); }) {
      return wait_.outcome(how);
    } else {
      if (how == wake::cancelled) throw_cancelled();
      if constexpr (Deadline::timed) return how == wake::fired;
    }
  }

 private:
  // What suspend() leaves in the node's index: that it was called, and how the wait has ended if it did not sleep.
  static constexpr std::uint32_t suspended = 1;
  static constexpr std::uint32_t suspended_and(wake how) noexcept {
    return suspended + static_cast<std::uint32_t>(how);
  }
  static constexpr wake how_of(std::uint32_t index) noexcept {
    return index == 0 ? wake::fired : static_cast<wake>(index - suspended);
  }

  bool suspend(std::coroutine_handle<> where) noexcept {
    if (wait_.is_lock()) lock_wait::open(this_waiter());  // of the carrier; it goes along when the coroutine sleeps
    stackless& self = this_async();
    wait_node& node = wait_.node();
    node.index = suspended_and(wake::fired);
    if (wait_.enter()) return false;
    const wake how = suspend_in(self, where, wait_.place(), node, wait_.why(), limit_);
    if (how == wake::fired) return true;
    node.index = suspended_and(wait_.leave(how));
    return false;
  }

  wake resume() noexcept {
    wait_node& node = wait_.node();
    const std::uint32_t begun = std::exchange(node.index, wait_node::served);
    wake how = how_of(begun);
    if (node.who != nullptr) {
      how = woken(*node.who);
      if constexpr (Deadline::timed)
        if (how == wake::timed_out) limit_.has_ended_it();
      if (how != wake::fired) {
        const wait_place at = wait_.place();
        at.lock.lock();
        at.queue.remove(node);
        how = wait_.leave(how);
      }
    }
    limit_.settle();
    if (begun != 0 && wait_.is_lock()) lock_wait::close(this_waiter());
    return how;
  }

  W wait_;
  [[no_unique_address]] Deadline limit_;
};

template <class W>
using timed_queue_awaiter = queue_awaiter<W, deadline_to_await>;

}  // namespace coir::detail
