// The poller of a runtime: the epoll in which the kernel tells which descriptors have become ready. A descriptor is
// registered when somebody has to wait for it for the first time, edge-triggered, for the way that is waited for, and
// for the other when that is (descriptor.hpp).
//
// Who asks the kernel (collect()), and when:
//   a sleeper     one of the sleeping workers sleeps in epoll instead of on its futex: idle_set::polls(). It wakes for
//                 events, for timers if it is the keeper, and for its bell.
//   a worker      that has run dry, if nobody sleeps there: without waiting.
//   a processor   that is busy: when the monitor asks for attention::events, since nobody has asked since its last
//   look. the monitor   itself, if that has not helped until its next look: fibers compute on all processors.
//
// So a ready fiber waits for one wake-up if somebody sleeps, for what is left to run if not, and at most two looks of
// the monitor.
//
// A batch becomes runnable as timers do: on the native stack, the oldest event first, with one wake for all.
//
// The bell is a counter (eventfd) in the same epoll, level-triggered: whoever else asks meanwhile may see it too, and
// leaves it alone; the sleeper reads it on its way out if it has seen it. So a ring that comes before the sleeper has
// entered epoll is there when it does. It is rung by who has taken the sleeper out of the idle set, so once a sleep. A
// ring for a sleeper who was leaving by itself wakes the next one for nothing.
//
// Invariants:
//  1. One sleeper at a time: it is set under the idle set's lock before it enters, and ends after it has left.
//  2. If all processors are idle and the poller is active, somebody sleeps in it: whoever goes to sleep and finds
//     nobody there does. If somebody is busy the monitor is awake.
//  3. A runtime that does no I/O has no epoll, and asks for nothing: one load of active().
//
// Outside of runtimes one poller with a thread of its own serves the plain threads (outside_poller.hpp).
#pragma once

#include <atomic>
#include <cstdint>

#include <sys/epoll.h>

#include <coir/detail/descriptor.hpp>
#include <coir/detail/park.hpp>
#include <coir/detail/spin_lock.hpp>

#include "base/counter.hpp"

namespace coir::detail {

class poller {
 public:
  enum class kind : std::uint8_t { of_runtime, outside };

  /// What the kernel has reported and nobody has delivered yet.
  struct batch {
    static constexpr int capacity = 128;
    int size = 0;
    bool rung = false;  // the bell, which is not among the events
    bool more = false;  // there was no room for more
    epoll_event events[capacity];
  };

  explicit poller(kind k = kind::of_runtime) noexcept : kind_(k) {}
  ~poller();  // nobody asks any more
  poller(const poller&) = delete;
  poller& operator=(const poller&) = delete;

  kind where() const noexcept { return kind_; }

  /// Makes the epoll, once. Throws std::system_error.
  void start();
  bool active() const noexcept { return epoll_.load(std::memory_order_relaxed) >= 0; }

  /// Registers a number, changes what it is registered for, ends that. `ways`: a bit for each io_way. Return 0 or the
  /// error.
  int add(int fd, descriptor::generation g, unsigned ways) noexcept;
  int change(int fd, descriptor::generation g, unsigned ways) noexcept;
  void remove(int fd) noexcept;

  /// Asks the kernel; waits until the deadline if there is nothing (0: not at all).
  void collect(batch& into, deadline until) noexcept;

  /// Makes runnable whoever waits for these events.
  static void deliver(const batch& b) noexcept;

  /// Wakes the sleeper.
  void ring() noexcept;
  void answer(const batch& b) noexcept;  // by the sleeper, on its way out

  /// Sleepers that are no fibers of this poller's runtime, which does not count them: plain threads, fibers of other
  /// runtimes, coroutines.
  void add_guest() noexcept { guests_.fetch_add(1, std::memory_order_relaxed); }
  void remove_guest() noexcept { guests_.fetch_sub(1, std::memory_order_relaxed); }
  bool has_guests() const noexcept { return guests_.load(std::memory_order_relaxed) != 0; }

  /// How often it was asked: to tell whether anybody has since.
  std::uint64_t asked() const noexcept { return asked_.load(std::memory_order_relaxed); }

  /// Its system calls.
  std::uint64_t calls() const noexcept { return calls_.load(std::memory_order_relaxed); }

 private:
  int started() noexcept;  // the epoll, and what start() has written before

  const kind kind_;
  spin_lock starting_;
  std::atomic<int> epoll_{-1};
  int bell_ = -1;
  alignas(64) std::atomic<std::uint64_t> asked_{0};
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::uint32_t> guests_{0};
};

}  // namespace coir::detail
