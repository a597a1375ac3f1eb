// Sleepers without a stack: the coroutines of <coir/async.hpp> and the callbacks of <coir/chan.hpp>. This is their half
// of the parking protocol (park.hpp), for awaiters and callbacks. Not for users.
//
// A stackless is a waiter that belongs to a start record. Whenever it is to run, the record goes to a run queue. The
// worker that takes it out runs it as a fiber, its *carrier*, on a warm stack, until it sleeps again or ends. So while
// asleep it costs its record and its coroutine frames. Until it has ended it counts as one live fiber.
//
//   state             word                                carried_  may be touched by
//   not begun         idle                                no        the worker that takes it out of the run queue
//   running           idle, or how its last wait ended    yes       its carrier
//   going to sleep    parking                             yes       its carrier
//   asleep            waiting                             no        claimers; one of them wins
//   woken, in a queue fired, timed_out or cancelled       no        the worker that takes it out of the run queue
//   ended             -                                   no        the owner of the record
//
// Invariants, beside those of park.hpp:
//  1. The word says `waiting` only when nobody runs in the frame any more. await_suspend() links its node, notes with
//     park() which lock to release, and returns. Only when resume(), too, has returned does the carrier publish the
//     word and then release the lock. (To publish in await_suspend() would be right by the letter of C++20, but
//     compilers keep temporaries of it in the frame, which may be gone by then: LLVM issue 56301.)
//  2. After the publication the carrier touches neither frame nor record: they may be running elsewhere, or be freed.
//     It may still release the locks that it holds: the primitive's, and transit_, which an owner takes before it
//     frees.
//  3. A cancellation is seen either by the carrier or by the canceller, since both look under transit_. The canceller
//     notes the request, and looks whether there is a carrier to cancel, or else a word that says `waiting`. The
//     carrier stops being the carrier, looks for a request, and publishes. If there is a request, it publishes
//     `cancelled` instead, which nobody can claim, and wakes the sleeper itself.
//  4. From its beginning to its end it is in its runtime's list: for deadlocks, and for cancelling all.
//
// The state of a fiber that its user sees (id, name, stop_token, fiber_locals, open uncancellable sections, a
// cancellation for good) moves with it from carrier to carrier.
#pragma once

#include <concepts>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>
#include <coir/detail/spin_lock.hpp>
#include <coir/detail/start_record.hpp>
#include <coir/fiber_id.hpp>
#include <coir/task.hpp>

namespace coir::inline COIR_ABI::detail {

class async_list;
class scheduler;
struct carried_over;

/// What guards a sleeper's nodes, to be released once it can be resumed: unlocks with release(arg), if not null.
struct lock_release {
  void (*release)(void*) noexcept = nullptr;
  void* arg = nullptr;
};

class stackless : public waiter {
 public:
  /// `frame`: the coroutine to run, suspended; null for a callback. Next is belongs_to().
  stackless(scheduler& home, std::coroutine_handle<> frame) noexcept;
  ~stackless();

  /// It is a part of this record, and lies before it.
  void belongs_to(start_record& record, fiber_id id) noexcept;
  void belongs_to(start_record& record) noexcept;  // with an id of its own

  /// Enters it in its runtime's list. One that is not started next (start() counts) is counted as live here.
  void enroll() noexcept;
  void count() noexcept;

  /// In a carrier: runs the coroutine until it sleeps (false: there may be nothing left to touch) or has ended (true).
  bool run_turn() noexcept;

  /// In a carrier, for a callback: from here on it is the carrier.
  void become_carrier() noexcept;

  /// Leaves the list, before it ends.
  void leave() noexcept;

  /// Publishes a wait that has begun, then releases the locks. A carrier's last act; or for a callback, which has none.
  /// `where`: the coroutine to go on with.
  void sleep(lock_release locks, std::coroutine_handle<> where) noexcept;

  /// Puts it into a run queue. By its claimer or its maker.
  void make_ready() noexcept;

  /// Requests the stop. The caller keeps it alive, and holds no primitive's lock. If it has a stop source, the caller
  /// signals that when it holds no lock at all.
  [[nodiscard]] std::optional<std::stop_source> cancel() noexcept;

  /// Where the coroutine was suspended last: at its end, the outermost frame.
  std::coroutine_handle<> frame() const noexcept { return std::coroutine_handle<>::from_address(frame_); }

  /// The reason of its wait, or of its last one.
  const void* waits_on() const noexcept { return why_.on; }

  // For deadlocks (deadlock_unwinder.cpp): its depth; while it sleeps, its stop source, if it has one.
  // mark_for_deadlock(): if it sleeps, cancels it for good and marks that wait. unwind_marked(): if it is deep enough,
  // ends that wait, and not a later wait for a lock.
  std::uint8_t depth() const noexcept;
  std::optional<std::stop_source> stop_source() const noexcept;
  void mark_for_deadlock() noexcept;
  bool unwind_marked(std::uint8_t least_depth) noexcept;
  bool asleep() const noexcept;
  task_status status() const noexcept;
  std::string describe() const;

  /// For dumps. Nothing if it has a carrier, with which it is seen, or has not begun.
  struct view {
    std::uint64_t id;
    bool is_callback;
    bool asleep;  // else it has been woken
    wait_reason why;
    const char* file;
    std::uint32_t line;
    std::string name;
  };
  std::optional<view> look() const;

 private:
  friend class async_list;
  friend void park(stackless&, std::coroutine_handle<>, lock_release, wait_reason) noexcept;
  friend void sleep_callback(stackless&, spin_lock*, wait_reason) noexcept;

  friend stackless& this_async() noexcept;

  void take_carrier(fiber& f) noexcept;
  void update_from(const fiber& f) noexcept;
  void make_room(const fiber& f) noexcept;
  start_record& record() const noexcept;
  template <class MayEnd>
  std::optional<std::stop_source> cancel_if(MayEnd may_end) noexcept;
  std::optional<std::stop_source> kept_source() const noexcept;

  mutable spin_lock transit_;  // lock order: after primitives' locks and tasks', before run queues; guards what follows
  bool carried_ = false;
  std::uint16_t record_offset_ = 0;
  std::uint32_t deadlocked_wait_ = 0;  // which is to be unwound, see wait_number(); 0: none; under the list's lock
  union {
    void* frame_;     // not carried: where the coroutine goes on; null for a callback
    fiber* carrier_;  // carried
  };
  std::unique_ptr<carried_over> kept_;  // while there is no carrier: name, stop source, locals, if there are any
  // Touched by the carrier; by nobody while it sleeps:
  scheduler* home_;
  std::uint64_t id_ = 0;
  wait_reason why_{"nothing", nullptr};
  // The list's:
  stackless* previous_ = nullptr;
  stackless* next_ = nullptr;
};

/// The promise of an async is derived from it. Only such coroutines may wait in coir's ways: their carriers know how.
class async_promise_mark {};
template <class Promise>
concept async_coroutine = std::derived_from<Promise, async_promise_mark>;

/// An awaiter is derived from it, publicly or not. Only such awaiters may suspend an async: they make sure that it is
/// resumed.
class async_awaiter_mark {};

// ---- for awaiters, in await_suspend() and await_resume() ------------------------------------------------------------

/// The async that the calling coroutine is a part of, ready for begin_wait(). Only in one, and without a lock: what it
/// takes along when it sleeps may need room.
stackless& this_async() noexcept;

/// Throws std::logic_error: an awaiter was kept in a variable and awaited twice.
[[noreturn]] void throw_awaited_again();

/// The first step of await_ready(), for an awaiter with a node: it serves once.
inline void begin_await(const wait_node& node) {
  if (node.index != 0) [[unlikely]]
    throw_awaited_again();
}

/// The first step of await_resume(), likewise. Throws `cancelled` if the wait was refused: nothing is linked.
inline void end_await(wait_node& node) {
  if (std::exchange(node.index, wait_node::served) == wait_node::refused) throw_cancelled();
}

/// The last step of await_suspend(), after begin_wait() and the linking of the node. The lock that guards it, if there
/// is one, is released once the coroutine can be resumed. After this nothing but the return.
void park(stackless& self, std::coroutine_handle<> where, spin_lock* lock, wait_reason why) noexcept;

/// The same for several locks. As soon as one is unlocked the sleeper may run on another thread; so whatever `release`
/// still reads must be kept alive by a lock that it still holds. The caller has called announce_release() for each.
void park(stackless& self, std::coroutine_handle<> where, lock_release locks, wait_reason why) noexcept;

/// In await_resume(), if it slept: how the wait ended. After timed_out and cancelled the node has to be removed.
wake woken(const waiter& self) noexcept;

/// Makes the carrier go on with `next` as soon as the calling coroutine is suspended.
void resume_next(std::coroutine_handle<> next) noexcept;

/// The calling coroutine, which is at its final suspension point, was the outermost one.
void end_async(std::coroutine_handle<> outermost) noexcept;

/// For a callback, after begin_wait() and the linking of its node: it sleeps from here on. `lock` as in park().
void sleep_callback(stackless& callback, spin_lock* lock, wait_reason why) noexcept;

}  // namespace coir::detail
