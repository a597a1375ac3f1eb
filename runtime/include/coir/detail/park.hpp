// The one parking protocol: everything in coir that blocks goes through this header, and it is the only door from the
// layers above into the scheduler. Not for users: the spellings here may change.
//
// A *waiter* is a sleeper: a fiber, a plain OS thread, or a coroutine or callback (stackless.hpp). A *wait_node* is its
// place in a queue. It lives on the sleeper's stack, in its coroutine frame or in its record. A sleeper may have many
// nodes queued (select); exactly one claim ends its wait.
//
// The claim word of a waiter: generation << 8 | state. The generation changes with each wait, so that a claim which
// comes too late (a timer, a canceller) can never hit the next wait.
//
//   state            moved there by                                  may be moved on by
//   idle             the sleeper, at first                           the sleeper
//   parking          the sleeper: begin_wait()                       the sleeper alone (after it has switched away)
//   waiting          the context that runs after the switch (for a   any claimer, once:
//                    coroutine its carrier), just before it
//                    releases the lock
//   fired            a claimer that holds the primitive's lock       the sleeper
//   timed_out        the timer                                       the sleeper
//   cancelled        a canceller                                     the sleeper
//
// Invariants:
//  1. A node is linked and unlinked only under its queue's lock, and is unlinked before the sleeper returns to its
//     caller: the popper unlinks the node that it pops (claimed or not), the sleeper all others.
//  2. The lock (or all locks) of the primitive is held from before the first node is linked until the sleeper's context
//     is saved and its word says waiting. So a claimer under the lock never meets `parking`, and a fiber is never
//     resumed while it is still switching out.
//  3. Claimers without the lock (timer, canceller, stop callback) wait out `parking`; it lasts for one switch.
//  4. Exactly one claimer wins; it alone makes the sleeper runnable, with unpark(), as its last touch of the waiter. So
//     a grant is never lost: a sleeper that was claimed as fired has got it, whatever comes later.
//  5. A cancellation is seen either by begin_wait() or by a canceller that finds the word parking or waiting: the
//     sleeper stores the word and then loads the reasons, the canceller changes the reasons and then loads the word,
//     with a light fence on the sleeper's side and a heavy one (membarrier) on the canceller's.
//
// The reasons word of a waiter: why its blocking calls are to throw `cancelled`. If it is not zero, and neither an
// uncancellable section nor a lock_wait is open, begin_wait() refuses.
//
//   bits            set by                                          cleared by
//   0 (for_good)    cancel_fiber(): task, group, runtime; deadlock  the next fiber on this control block, at its start
//   above: a count  expire(): a timeout scope of this waiter whose  the waiter itself, forget_expiry(): at that
//                   deadline has passed, once each                  scope's end
//
// So a scope takes its own reason away when it ends, and the reasons of others remain. The caller of expire() makes
// sure that the scope has not ended and does not end meanwhile (sync/cancel/timeout.cpp).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <string_view>
#include <type_traits>

#include <coir/detail/abi.hpp>
#include <coir/detail/requirements.hpp>
#include <coir/detail/spin_lock.hpp>

namespace coir::inline COIR_ABI::detail {

class waiter;

// ---- deadlines: nanoseconds of the runtime's monotonic clock -------------------------------------------------------

using deadline = std::int64_t;
inline constexpr deadline no_deadline = std::numeric_limits<deadline>::max();

/// The monotonic clock of the calling fiber's runtime (CLOCK_MONOTONIC outside one), in nanoseconds.
deadline now() noexcept;

/// d as nanoseconds, clamped to the range of std::int64_t instead of overflowing; a fraction is rounded up, so that
/// nothing fires early.
template <class Rep, class Period>
constexpr std::int64_t clamped_nanoseconds(std::chrono::duration<Rep, Period> d) {
  using limits = std::numeric_limits<std::int64_t>;
  __extension__ using wide_integer = __int128;  // of three factors of 64 bits no two that meet here exceed it
  constexpr std::intmax_t common = std::gcd(Period::den, std::nano::den);
  constexpr wide_integer numerator = wide_integer{Period::num} * (std::nano::den / common);
  constexpr wide_integer denominator = Period::den / common;
  if constexpr (std::is_integral_v<Rep> && sizeof(Rep) <= sizeof(std::int64_t)) {
    constexpr wide_integer most = limits::max() * denominator / numerator;
    const wide_integer count = d.count();
    if (count > most) return limits::max();
    if (count < -most) return limits::min();
    const wide_integer scaled = count * numerator;
    return static_cast<std::int64_t>(scaled / denominator + (scaled % denominator > 0 ? 1 : 0));
  } else {
    using real = std::conditional_t<std::is_floating_point_v<Rep>, Rep, long double>;
    constexpr auto most = static_cast<real>(9.2e18L);
    const real ns = static_cast<real>(d.count()) * static_cast<real>(numerator) / static_cast<real>(denominator);
    if (ns >= most) return limits::max();
    if (ns <= -most) return limits::min();
    if (!(ns < most)) return 0;  // NaN, which is not in order with any number: no time at all
    const auto whole = static_cast<std::int64_t>(ns);
    return whole + (ns > static_cast<real>(whole) ? 1 : 0);
  }
}

/// now() + d, saturating.
template <class Rep, class Period>
deadline deadline_after(std::chrono::duration<Rep, Period> d) {
  const std::int64_t ns = clamped_nanoseconds(d);
  if (ns <= 0) return 0;
  const deadline t = now();
  // A wait that long is still a timer (it counts for deadlock detection), so it stays below no_deadline.
  return ns >= no_deadline - 1 - t ? no_deadline - 1 : t + ns;
}

/// to - from, in nanoseconds; does not overflow.
template <class Clock, class From, class To>
constexpr std::chrono::duration<long double, std::nano> time_between(std::chrono::time_point<Clock, From> from,
                                                                     std::chrono::time_point<Clock, To> to) {
  using long_time = std::chrono::duration<long double, std::nano>;
  return std::chrono::duration_cast<long_time>(to.time_since_epoch()) -
         std::chrono::duration_cast<long_time>(from.time_since_epoch());
}

/// The deadline at a point of any clock; a clock other than steady_clock is read once, now.
template <class Clock, class Duration>
deadline deadline_at(std::chrono::time_point<Clock, Duration> t) {
  if constexpr (std::is_same_v<Clock, std::chrono::steady_clock>) {
    const std::int64_t ns = clamped_nanoseconds(t.time_since_epoch());
    return ns >= no_deadline ? no_deadline - 1 : ns < 0 ? 0 : ns;
  } else {
    return deadline_after(time_between(Clock::now(), t));
  }
}

// ---- waiters and their places in queues ----------------------------------------------------------------------------

struct wait_node {
  static constexpr std::uint32_t refused = UINT32_MAX;     ///< cancelled before it slept
  static constexpr std::uint32_t served = UINT32_MAX - 1;  ///< an awaiter's wait is over, and it cannot have another

  wait_node* next = nullptr;
  wait_node* previous = nullptr;
  waiter* who = nullptr;
  void* slot = nullptr;     ///< where the claimer finds, or leaves, the value
  std::uint32_t index = 0;  ///< which case of a select; of a coroutine: whether it was refused, or is over
  bool queued = false;      ///< guarded by the queue's lock
  bool ok = false;          ///< set by the claimer: done (true), or woken by a close (false)
};

class waiter {
 public:
  enum state : std::uint64_t { idle, parking, waiting, fired, timed_out, cancelled };
  enum class kind : std::uint8_t { fiber, thread, stackless };
  static constexpr std::uint64_t state_mask = 0xff;

  explicit waiter(kind k) noexcept : kind_(k) {}
  waiter(const waiter&) = delete;
  waiter& operator=(const waiter&) = delete;

  /// The waker's first step, under the lock of the queue that `node` was popped from. True for exactly one claimer of a
  /// wait; that one must fill in the node and call unpark().
  [[gnu::always_inline]] inline bool claim(wait_node& node) noexcept {
    std::uint64_t seen = word_.load(std::memory_order_relaxed);
    // acq_rel: acquire pairs with the release store of `waiting` (the sleeper's context and nodes are complete);
    // release pairs with the losers of the claim and with the sleeper.
    if ((seen & state_mask) != waiting ||
        !word_.compare_exchange_strong(seen, (seen & ~state_mask) | fired, std::memory_order_acq_rel,
                                       std::memory_order_relaxed))
      return false;
    fired_node_ = &node;
    return true;
  }

  /// For claimers that hold no lock: waits out `parking`, then claims the wait that began with `word` (what
  /// begin_wait() left) for `as` (timed_out, cancelled, or fired with the given node). False if that wait is over.
  bool claim_from_outside(std::uint64_t word, state as, wait_node* node = nullptr) noexcept;

  /// The node that ended the last wait, if it was fired.
  wait_node* fired_node() const noexcept { return fired_node_; }

  std::uint64_t word() const noexcept { return word_.load(std::memory_order_relaxed); }

 private:
  friend struct waiter_access;

  std::atomic<std::uint64_t> word_{idle};
  wait_node* fired_node_ = nullptr;
  std::atomic<std::uint32_t> reasons_{0};        // see above
  std::atomic<std::uint32_t> uncancellable_{0};  // open sections and lock_waits; written by the fiber or thread itself
  kind kind_;
};

/// First come, first served; every member under the owner's lock. Removal from the middle is O(1).
class wait_queue {
 public:
  /// Also a hint without the lock; acquire, so that later loads are not older.
  bool empty() const noexcept { return head_.load(std::memory_order_acquire) == nullptr; }

  void push_back(wait_node& n) noexcept {
    n.next = nullptr;
    n.previous = tail_;
    n.queued = true;
    if (tail_ != nullptr)
      tail_->next = &n;
    else
      head_.store(&n, std::memory_order_relaxed);
    tail_ = &n;
  }

  void remove(wait_node& n) noexcept {
    if (!n.queued) return;
    n.queued = false;
    if (n.previous != nullptr)
      n.previous->next = n.next;
    else
      head_.store(n.next, std::memory_order_relaxed);
    if (n.next != nullptr)
      n.next->previous = n.previous;
    else
      tail_ = n.previous;
  }

  wait_node* front() const noexcept { return head_.load(std::memory_order_relaxed); }

  /// Pops nodes until one can be claimed; skips those that another claimer has claimed already. Null: no live node is
  /// left.
  [[gnu::always_inline]] inline wait_node* claim_front() noexcept {
    while (wait_node* n = head_.load(std::memory_order_relaxed)) {
      pop_front(*n);
      if (n->who->claim(*n)) return n;
    }
    return nullptr;
  }

 private:
  [[gnu::always_inline]] inline void pop_front(wait_node& first) noexcept {
    wait_node* const second = first.next;
    first.queued = false;
    head_.store(second, std::memory_order_relaxed);
    (second != nullptr ? second->previous : tail_) = nullptr;
  }

  std::atomic<wait_node*> head_{nullptr};  // atomic so that empty() may be asked, as a hint, without the lock
  wait_node* tail_ = nullptr;
};

/// A place to wait at. Both exist while a waiter is queued.
struct wait_place {
  spin_lock& lock;  ///< guards the queue
  wait_queue& queue;
};

/// The owner of these queues is being destroyed, and they are not empty: ends the process with a report of the waiters.
/// Returns only if the process already ends, in exit(), or if a deadlock is being unwound; then leave the memory alone.
/// `what`: "mutex".
void destroyed_with_waiters(std::string_view what, const void* object, spin_lock& lock,
                            std::initializer_list<const wait_queue*> queues) noexcept;

// ---- sleeping and waking -------------------------------------------------------------------------------------------

/// How a wait ended.
enum class wake : std::uint8_t { fired, timed_out, cancelled };

/// What a sleeper waits on, for reports: {"chan receive", &channel}. `what` has static storage.
struct wait_reason {
  const char* what;
  const void* on = nullptr;
};

/// The calling fiber's waiter, or the calling OS thread's. Valid until the fiber or thread ends.
waiter& this_waiter() noexcept;

/// The sleeper's first step, before its nodes are linked: the word becomes `parking`. False if there is a reason to
/// give up (and no uncancellable section open): then nothing has begun; release the lock and throw_cancelled(). After
/// true the caller must park(), or take it back with abandon_wait().
[[nodiscard]] bool begin_wait(waiter& self) noexcept;

/// Takes begin_wait() back. Only while the lock that guards the linked nodes is still held, nodes unlinked.
void abandon_wait(waiter& self) noexcept;

/// Sleeps until claimed. `lock` is released once the sleeper can be resumed; it is not held on return. After timed_out
/// or cancelled the caller takes the lock and removes its nodes.
wake park(waiter& self, spin_lock& lock, wait_reason why, deadline until = no_deadline) noexcept;

/// The same for several locks: `release(arg)` unlocks them. As soon as one is unlocked the sleeper may run on another
/// thread; so whatever `release` still reads must be kept alive by a lock that it still holds. The caller has called
/// announce_release() for each of the locks.
wake park(waiter& self, void (*release)(void*) noexcept, void* arg, wait_reason why,
          deadline until = no_deadline) noexcept;

/// A fiber or thread waits in one queue: begin_wait(), the link of the node (unless it is queued already), park(). The
/// lock is held at the call and not on return. After timed_out or cancelled, also if it never slept, the caller takes
/// the lock and removes the node, which nobody has claimed or can claim.
[[nodiscard]] wake park_in(wait_place at, wait_node& node, wait_reason why, deadline until = no_deadline) noexcept;

/// The same, with the node removed. fired: the lock is not held. timed_out (at once if the deadline has passed),
/// cancelled: the lock is held.
[[nodiscard]] inline wake sleep_in(wait_place at, wait_node& node, wait_reason why,
                                   deadline until = no_deadline) noexcept {
  wake how = wake::timed_out;
  // Checked first, since a call that does not block does not look whether it is cancelled.
  if (until == no_deadline || until > now()) {
    how = park_in(at, node, why, until);
    if (how == wake::fired) [[likely]]
      return how;
    at.lock.lock();
  }
  at.queue.remove(node);
  return how;
}

/// The claim winner's last step: makes the sleeper runnable. Call it after the lock is released.
void unpark(waiter& who) noexcept;

[[noreturn]] void throw_cancelled();
[[noreturn]] void throw_timed_out();

// ---- waiting for locks ---------------------------------------------------------------------------------------------

/// While a lock_wait is open, no cancellation and no expired timeout ends the waits of its waiter: locking is no
/// cancellation point, so that destructors of a cancelled fiber may lock. begin_wait() never refuses, and park()
/// returns `cancelled` for one reason alone: a deadlock is certain, this wait was under way when it was found, and it
/// is being unwound. (In an `uncancellable` section not even that.) Opened and closed by the fiber or thread itself;
/// nests.
class [[nodiscard]] lock_wait {
 public:
  explicit lock_wait(waiter& self) noexcept : self_(self) { open(self); }
  ~lock_wait() { close(self_); }
  lock_wait(const lock_wait&) = delete;
  lock_wait& operator=(const lock_wait&) = delete;

  /// For a coroutine, which may be closed on another carrier.
  static void open(waiter& self) noexcept;
  static void close(waiter& self) noexcept;

 private:
  waiter& self_;
};

// ---- expired timeouts ----------------------------------------------------------------------------------------------

/// One more scope of `who` has expired: ends the wait that it is in, if any, and those to come. True: the caller must
/// unpark(who), with no lock held. From any thread, while that scope cannot end.
[[nodiscard]] bool expire(waiter& who) noexcept;

/// Takes one expire() back. By the waiter's own fiber or thread.
void forget_expiry(waiter& self) noexcept;

/// Whether the waiter's fiber is cancelled for good: by its task, group, runtime, or a deadlock.
bool cancelled_for_good(const waiter& self) noexcept;

/// Blocks forever (nil channels, empty select): until cancelled, then throws `cancelled`.
[[noreturn]] void park_forever(wait_reason why);

/// Sleeps until the deadline; returns at once if that has passed. Throws `cancelled`.
void sleep_until_deadline(deadline until);

/// The same, but parks in any case, and so notices that it is cancelled.
void park_until(deadline until);

/// A pseudo-random 64-bit number from the current processor's source (a thread's own outside a runtime).
std::uint64_t random_bits() noexcept;

/// How many processors have nothing to do and find nothing here: those idle or searching, less the fibers that wait on
/// the calling fiber's processor for a thief. 0 outside a fiber. A hint, of a few nanoseconds, for callers that could
/// divide their work.
unsigned processors_without_work() noexcept;

}  // namespace coir::detail
