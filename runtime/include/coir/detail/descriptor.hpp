// Waiting for a file descriptor: all input and output of coir goes through this. Not for users: the spellings here may
// change. docs/internals/poller.md describes the protocol.
//
// There is one *descriptor* object for each number, in a table that never shrinks. An event that was already on its way
// when the descriptor was closed, or a stream that is used after its close, finds an object that is a descriptor still,
// with another *generation*. It reads no other file's bytes, and wakes no other owner's fiber. (An unnecessary wake-up
// does no harm: the sleeper tries the system call again.)
//
// An operation is a loop:
//   begin(); seen = edges(way); the system call. EAGAIN: wait(way, seen), then again from `seen`. end().
//
// Invariants:
//  1. No readiness is lost between EAGAIN and the sleep. The kernel reports each change to ready after an EAGAIN
//     (edge-triggered). The delivery of the event increments edges(way) under the lock. wait() compares edges(way),
//     under the same lock, with its value before the system call, and sleeps only if they are equal.
//  2. An event wakes all sleepers of its direction: one event may stand for many connections, and a watcher of the
//     descriptor must not take the event that its owner waits for.
//  3. The number is closed only when no section between begin() and end() is open. Otherwise a system call might meet
//     another file. The generation has changed before.
//  4. home_, interest_ and the queues are used under lock_. edges are changed under lock_ and read without it.
//  5. A closed descriptor is not registered: retire() and open() end what is left.
//
// The state word: generation << 32 | closed << 31 | uses.
//   closed, 0 uses        -> open, 1 use (the owner's or the watchers')      own(), watch()
//   open, n uses          -> open, n +- 1                                    begin(), end()
//   open, n uses          -> closed, n uses, then n - 1                      close(), the last unwatch(), abandon()
//   closed, n uses        -> closed, n - 1 uses; 0: the number is closed     end(), and retire() by the last one
//   any                   -> open, 1 use, another generation                 own(), of a number that was watched, or
//                                                                            closed behind coir's back
#pragma once

#include <atomic>
#include <cstdint>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/detail/early_claim.hpp>
#include <coir/detail/park.hpp>
#include <coir/detail/spin_lock.hpp>

namespace coir::inline COIR_ABI::detail {

class poller;

enum class io_way : std::uint8_t { read, write };

/// Whether the number is that of a socket in memory, which only an exploration has. The kernel does not know it, so it
/// is in no poller; the exploration reports its events. The numbers are the last ones of the table. The kernel gives
/// them to no process, unless fs.nr_open is raised above 15 million.
inline constexpr int first_simulated_number = 15 << 20;
constexpr bool is_simulated(int fd) noexcept {
  if constexpr (explorable) return fd >= first_simulated_number;
  return false;
}

/// How a wait ended: the operation should be tried again, the descriptor was closed, the deadline has passed.
enum class io_wake : std::uint8_t { ready, closed, timed_out };

class alignas(64) descriptor {
 public:
  using generation = std::uint32_t;

  /// The descriptor of a number that the caller owns and that is in non-blocking mode; from here on it is closed by
  /// close() alone. Throws std::system_error (EMFILE: the number is too large), std::bad_alloc; the number is open
  /// then.
  static descriptor& own(int fd);

  /// The descriptor of a number that another part of the program owns, until unwatch(). It is shared with its owner, if
  /// that is coir, and with other watchers. The number must stay open until unwatch(). Throws as own() does, and
  /// std::system_error (EBADF) if its owner is closing it.
  static descriptor& watch(int fd);
  void unwatch(generation g) noexcept;

  /// For code that closes a number that watchers may wait for: to be called before and after the close. The watchers
  /// are woken (`closed`), and a later watch() registers the number anew. A wait() with a value of edges_of() from
  /// before this tries again. Does nothing if coir owns the number.
  static void abandon(int fd) noexcept;

  /// How often that number has become ready, or was abandoned, under any owner. Starts the caller's poller.
  static std::uint32_t edges_of(int fd, io_way way) noexcept;

  /// Whether a stream of coir's owns the number, so that it is in non-blocking mode.
  static bool is_owned(int fd) noexcept;

  int number() const noexcept { return number_; }

  /// The generation of the present owner or watchers. To be called right after own() or watch().
  generation current() const noexcept {
    return static_cast<generation>(state_.load(std::memory_order_relaxed) >> generation_shift);
  }

  /// Opens and closes a section in which the number stays what it is. False: that generation is closed.
  [[nodiscard]] bool begin(generation g) noexcept {
    std::uint64_t seen = state_.load(std::memory_order_relaxed);
    do {
      if (static_cast<generation>(seen >> generation_shift) != g || (seen & closed_bit) != 0) return false;
    } while (!state_.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire, std::memory_order_relaxed));
    return true;
  }
  void end(generation g) noexcept {
    std::uint64_t seen = state_.load(std::memory_order_relaxed);
    do {
      if (static_cast<generation>(seen >> generation_shift) != g) return;  // taken over by another owner
    } while (!state_.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel, std::memory_order_relaxed));
    if ((seen & closed_bit) != 0 && (seen & uses_mask) == 1) retire(g);
  }

  bool is_open(generation g) const noexcept {
    const std::uint64_t seen = state_.load(std::memory_order_acquire);
    return static_cast<generation>(seen >> generation_shift) == g && (seen & closed_bit) == 0;
  }

  /// By the owner, from any thread: wakes all sleepers (`closed`). No section can begin any more, and the number is
  /// closed when the last one ends. False: it was closed already.
  bool close(generation g) noexcept;

  /// How often the kernel has reported it as ready. acquire: pairs with deliver().
  std::uint32_t edges(io_way way) const noexcept { return edges_[index(way)].load(std::memory_order_acquire); }

  /// Whether a short read or write means that the next one would block. That is not so once the peer has ended, or an
  /// error or urgent data was reported: these may come without an event of their own. Nor is it so for simulated
  /// numbers, which are not registered: what came before accept() is not reported.
  bool short_means_drained() const noexcept { return !special_.load(std::memory_order_relaxed); }

  /// Sleeps until `edges(way) != seen`, the descriptor is closed, or a deadline comes: `until`, or, if `limited`, the
  /// one that is set for this way. It may return `ready` too early. Inside a section. `what`: for reports, "tcp read".
  /// `tried`: the system call has been made. If it has not, and the fiber is cancelled already, this returns `ready`,
  /// so that the caller makes it: what has arrived before a cancellation is read. Throws `cancelled`, and
  /// std::system_error if the kernel cannot watch this descriptor.
  io_wake wait(generation g, io_way way, std::uint32_t seen, const char* what, bool limited,
               deadline until = no_deadline, bool tried = true);

  /// Sets the deadline of limited waits, also of those that are under way. It belongs to the generation: own() begins
  /// without one.
  void set_limit(generation g, io_way way, deadline until) noexcept;
  deadline limit(io_way way) const noexcept { return limits_[index(way)].load(std::memory_order_relaxed); }

  /// For a sleeper that waits for several things at once, before its wait begins (early_claim.hpp): queues `node`; an
  /// event then ends the wait through `claim`. False: there was an event since `seen`, or the descriptor is closed.
  /// After leave() nobody touches either. Throws std::system_error as wait() does.
  bool join(generation g, io_way way, std::uint32_t seen, wait_node& node, early_claim& claim);
  void leave(io_way way, wait_node& node) noexcept;

  // ---- for the poller: the kernel has reported `events` (epoll's) for a number.
  static void deliver(int fd, generation g, std::uint32_t events) noexcept;
  static void prefetch(int fd) noexcept;  // deliver() soon follows; any number

  /// For an exploration: the same for the present owner of a simulated number.
  static void report(int fd, std::uint32_t events) noexcept;

  /// For a poller that is being destroyed: no descriptor is registered there any more, and the sleepers of those that
  /// were try again elsewhere.
  static void forget(poller& gone) noexcept;

  /// For the table alone.
  descriptor() = default;
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;

 private:
  static constexpr unsigned generation_shift = 32;
  static constexpr std::uint64_t closed_bit = std::uint64_t{1} << 31;
  static constexpr std::uint64_t uses_mask = closed_bit - 1;
  static constexpr unsigned ways = 2;

  static constexpr unsigned index(io_way way) noexcept { return static_cast<unsigned>(way); }

  void set_number(int fd) noexcept;
  generation open(bool owned) noexcept;
  void retire(generation g) noexcept;
  void deregister() noexcept;
  bool shut(generation g, wait_node*& woken) noexcept;
  void enlist(io_way way, poller& mine);
  bool is_guest(const wait_node& n) const noexcept;
  void link(io_way way, wait_node& n) noexcept;
  void unlink(io_way way, wait_node& n) noexcept;
  wait_node* take_all(io_way way, bool ok, wait_node* rest) noexcept;
  wait_node* arrive(io_way way, wait_node* rest) noexcept;
  static void wake_all(wait_node* list) noexcept;

  std::atomic<std::uint64_t> state_{closed_bit};
  std::atomic<std::uint32_t> edges_[ways]{};
  std::atomic<deadline> limits_[ways]{no_deadline, no_deadline};
  spin_lock lock_;
  std::atomic<bool> special_{false};  // the peer has ended, or there was an error or urgent data
  std::atomic<bool> owned_{false};    // changes under lock_
  std::uint8_t interest_ = 0;         // the directions that the kernel reports
  int number_ = -1;
  std::uint32_t watchers_ = 0;
  poller* home_ = nullptr;  // where it is registered
  wait_queue queues_[ways];
};

}  // namespace coir::detail
