// Waiting for a file descriptor: what everything in coir that blocks in input and output goes through. Not for users:
// the spellings here may change.
//
// There is one *descriptor* a number, in a table that never shrinks. So whoever comes too late (an event that was on
// its way when the descriptor was closed, a stream that is used after its close) finds memory that is a descriptor
// still, and a *generation* that is not its own: it reads nobody else's bytes and wakes nobody else's fiber. (A wake
// that is not needed does no harm: who waits tries the system call again.)
//
// How an operation goes, in a loop:
//   begin(); seen = edges(way); the system call. EAGAIN: wait(way, seen), then again from `seen`. end().
//
// Invariants:
//  1. No readiness is lost between EAGAIN and the sleep. The kernel reports each change to ready after an EAGAIN
//     (edge-triggered), whoever hears of it adds one to edges(way) under the lock, and wait() compares that, under the
//     same lock, with what it was before the system call: it sleeps only if they are equal.
//  2. All who wait for that way are woken by an edge: one edge may stand for many connections, and a watcher of the
//     descriptor may not take what its owner waits for.
//  3. The number is given back to the kernel only when nobody is between begin() and end(): else a system call might
//     meet another file. The generation has changed before.
//  4. home_, interest_ and the queues change under lock_; edges change under lock_ and are read without.
//
// The state word: generation << 32 | closed << 31 | uses.
//   closed, 0 uses        -> open, 1 use (the owner's or the watchers')      own(), watch()
//   open, n uses          -> open, n +- 1                                    begin(), end()
//   open, n uses          -> closed, n - 1                                   close(), the last unwatch(), abandon()
//   closed, 1 use         -> closed, 0 uses: the number is closed            end(), by the last one
//   any                   -> open, 1 use, another generation                 own(), of a number that was closed behind
//                                                                            coir's back and given out again
#pragma once

#include <atomic>
#include <cstdint>

#include <coir/detail/early_claim.hpp>
#include <coir/detail/park.hpp>
#include <coir/detail/spin_lock.hpp>

namespace coir::detail {

class poller;

enum class io_way : std::uint8_t { read, write };

/// How a wait ended: worth another try, closed by somebody, at its deadline.
enum class io_wake : std::uint8_t { ready, closed, timed_out };

class alignas(64) descriptor {
 public:
  using generation = std::uint32_t;

  /// The descriptor of a number that the caller owns and that is in non-blocking mode; from here on it is closed by
  /// close() alone. Throws std::system_error (EMFILE: the number is too large), std::bad_alloc; the number is open
  /// then.
  static descriptor& own(int fd);

  /// The descriptor of a number that somebody else owns, for as long as unwatch() is not called: shared with its owner,
  /// if that is coir, and with others who watch it. It must stay open until unwatch(). Throws as own() does.
  static descriptor& watch(int fd);
  void unwatch(generation g) noexcept;

  /// For who closes a number that watchers may wait for, before and after: they are woken (`closed`), and a later
  /// watch() registers it anew. Nothing if nobody watches it, or coir owns it.
  static void abandon(int fd) noexcept;
  static bool is_watched(int fd) noexcept;

  /// How often that number has become ready, whoever had it; no table is made for it.
  static std::uint32_t edges_of(int fd, io_way way) noexcept;

  /// Whether a stream of coir's owns the number, so that it is in non-blocking mode.
  static bool is_owned(int fd) noexcept;

  int number() const noexcept { return number_; }

  /// Of the present owner or watchers; ask for it right after own() or watch().
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

  /// By the owner, from any thread: who waits is woken (`closed`), no section begins any more, and the number is closed
  /// when the last one ends. False: it was closed already.
  bool close(generation g) noexcept;

  /// How often the kernel has said that it became ready. acquire: pairs with deliver().
  std::uint32_t edges(io_way way) const noexcept { return edges_[index(way)].load(std::memory_order_acquire); }

  /// Whether a short read or write means that the next one would block. Not once the peer has ended, nor with an error
  /// or urgent data about: these may come without an edge of their own.
  bool short_means_drained() const noexcept { return !special_.load(std::memory_order_relaxed); }

  /// Sleeps until `edges(way) != seen`, the descriptor is closed, or a deadline comes: `until`, or, if `limited`, the
  /// one that is set for this way. It may return `ready` too early. Inside a section. `what`: for reports, "tcp read".
  /// `tried`: the system call has been made. If it has not, and the fiber is cancelled already, this returns `ready`,
  /// so that the caller makes it: what has arrived before a cancellation is read. Throws `cancelled`, and
  /// std::system_error if the kernel cannot watch this descriptor.
  io_wake wait(generation g, io_way way, std::uint32_t seen, const char* what, bool limited,
               deadline until = no_deadline, bool tried = true);

  /// Until when a limited wait() may take, from now on and for who waits already. Of one generation; own() begins
  /// without.
  void set_limit(generation g, io_way way, deadline until) noexcept;
  deadline limit(io_way way) const noexcept { return limits_[index(way)].load(std::memory_order_relaxed); }

  /// For who waits for several at once, before its wait begins (early_claim.hpp): queues `node`, through which `claim`
  /// ends that wait. False: something has happened since `seen`, or the descriptor is closed. After leave() nobody
  /// touches either. Throws std::system_error as wait() does.
  bool join(generation g, io_way way, std::uint32_t seen, wait_node& node, early_claim& claim);
  void leave(io_way way, wait_node& node) noexcept;

  // ---- for the poller: the kernel has said `events` (as epoll's) about a number.
  static void deliver(int fd, generation g, std::uint32_t events) noexcept;
  static void prefetch(int fd) noexcept;  // deliver() soon follows; any number

  /// For a poller that goes: who is registered there is no more, and tries again elsewhere.
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
  std::uint8_t interest_ = 0;         // of which ways the kernel tells
  int number_ = -1;
  std::uint32_t watchers_ = 0;
  poller* home_ = nullptr;  // where it is registered
  wait_queue queues_[ways];
};

}  // namespace coir::detail
