// The poller of a runtime: the epoll instance through which the kernel reports which descriptors have become ready. A
// descriptor is registered, edge-triggered, when a fiber or thread has to wait for it for the first time
// (descriptor.hpp). docs/internals/poller.md describes the protocol.
//
// collect() asks the kernel. It is called by
//   one sleeping worker   which sleeps in epoll instead of on its futex: idle_set::polls(). It wakes for events, for
//                         timers if it is the keeper, and for the bell.
//   a worker              that has run dry, if no worker sleeps in epoll: without waiting. Not after a sleep in epoll
//                         that a single event ended.
//   a busy processor      when the kernel has more events than it has taken, and its ready ring has room for them; or
//                         when the monitor asks for attention::events, because nobody has called it since the
//                         monitor's last look. (Or the last two: monitor::watch_poller().)
//   the monitor           if that has not helped until its next look: fibers compute on all processors.
//
// So a ready fiber waits for one wake-up if a worker sleeps in epoll, and for at most two looks of the monitor if all
// processors compute.
//
// A batch of events becomes ready as timers do: on the native stack, the oldest first, with one wake-up for all.
//
// The bell is an eventfd in the same epoll instance. It is level-triggered, so a ring that comes before the sleeper has
// entered epoll is not lost. The waker that has taken the sleeper out of the idle set rings it, once. The sleeper reads
// it on its way out, if it has seen it. Others that ask see it too, and leave it alone; it is not one of the events. A
// ring that comes when the sleeper is already leaving wakes the next sleeper for nothing.
//
// Invariants:
//  1. At most one worker sleeps in epoll: it is entered under the idle set's lock before, and removed after.
//  2. If all processors are idle and the poller is active, a worker sleeps in it, or is about to: a worker that goes to
//     sleep and finds no worker there does so. If a processor is busy, the monitor is awake.
//  3. A runtime that does no I/O has no epoll instance, and never asks: it loads active().
//
// Plain threads are served by one poller outside of all runtimes, which has a thread (outside_poller.hpp).
#pragma once

#include <atomic>
#include <cstdint>

#include <sys/epoll.h>

#include <coir/detail/abi.hpp>
#include <coir/detail/descriptor.hpp>
#include <coir/detail/park.hpp>
#include <coir/detail/spin_lock.hpp>

#include "base/counter.hpp"

namespace coir::inline COIR_ABI::detail {

class poller {
 public:
  enum class kind : std::uint8_t { of_runtime, outside };

  /// The events that the kernel has reported and no thread has delivered yet.
  struct batch {
    static constexpr int capacity = 128;
    int size = 0;
    bool rung = false;  // the bell, which is not among the events
    bool more = false;  // there was no room for more
    epoll_event events[capacity];
  };

  explicit poller(kind k = kind::of_runtime) noexcept : kind_(k) {}
  ~poller();  // by then nobody calls collect()
  poller(const poller&) = delete;
  poller& operator=(const poller&) = delete;

  kind where() const noexcept { return kind_; }

  /// Makes the epoll instance, once. Throws std::system_error.
  void start();
  bool active() const noexcept { return epoll_.load(std::memory_order_relaxed) >= 0; }

  /// Registers a number, changes the directions that are reported, removes it. `ways`: a bit for each io_way. They
  /// return 0 or the error.
  int add(int fd, descriptor::generation g, unsigned ways) noexcept;
  int change(int fd, descriptor::generation g, unsigned ways) noexcept;
  void remove(int fd) noexcept;

  /// Asks the kernel for events. If there are none it waits until the deadline (0: not at all).
  void collect(batch& into, deadline until, int most = batch::capacity) noexcept;

  /// Makes runnable all that wait for these events.
  static void deliver(const batch& b) noexcept;

  /// Wakes the sleeper.
  void ring() noexcept;
  void answer(const batch& b) noexcept;  // by the sleeper, on its way out

  /// Sleepers that are no fibers of this poller's runtime, which does not count them: plain threads, fibers of other
  /// runtimes, coroutines.
  void add_guest() noexcept { guests_.fetch_add(1, std::memory_order_relaxed); }
  void remove_guest() noexcept { guests_.fetch_sub(1, std::memory_order_relaxed); }
  bool has_guests() const noexcept { return guests_.load(std::memory_order_relaxed) != 0; }

  /// How often collect() has been called. The monitor compares it with the number of its last look. For metrics too.
  std::uint64_t asked() const noexcept { return asked_.load(std::memory_order_relaxed); }

 private:
  int started() noexcept;  // the epoll instance; makes visible what start() has written before

  const kind kind_;
  spin_lock starting_;
  std::atomic<int> epoll_{-1};
  int bell_ = -1;
  alignas(64) std::atomic<std::uint64_t> asked_{0};
  std::atomic<std::uint32_t> guests_{0};
};

}  // namespace coir::detail
