// A runtime's idle processors, its sleeping workers, and the keeper: the sleeper that wakes for the next deadline.
// idle.cpp and wake.cpp say how workers go to sleep and are woken. retake.cpp says how a running worker loses its
// processor.
//
// Every processor is
//   busy      it has an owner
//   idle      in processors_, and counted in word_. Nothing lies in its rings.
// Every worker is in one of these states; all transitions are under the lock:
//   running   owns a processor                     -> lost: retake(), hand_off()   -> asleep: release_and_sleep()
//   lost      runs a fiber, owns none              -> running: take_idle_for()     -> asleep: sleep_as_spare()
//   asleep    in sleepers_, or without a thread    -> running: a processor is handed to it by wake_searcher(),
//             (worker_supply.hpp)                     retake(), hand_off(); or it takes one: take_idle_processor()
//
// Invariants, while the lock is free:
//  1. The count in word_ is that of processors_, and changes with it: a reader of 0 has seen no idle processor.
//  2. deadline_ is the earliest timer of the idle processors, as of the last time one of them came or went.
//  3. The keeper is a sleeper, and sleeps until keeper_deadline_ or less. A thread that takes the keeper makes sure
//     that another sleeper wakes by deadline_, or it wakes the monitor.
//  4. A lost worker's fiber is live: while lost() != 0 nothing is quiescent.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>
#include <coir/detail/spin_lock.hpp>

#include "base/counter.hpp"
#include "base/internal_memory.hpp"

namespace coir::inline COIR_ABI::detail {

class processor;
class worker;

class alignas(64) idle_set {
 public:
  /// `cpus`: no more workers than these are woken to run at the same time.
  idle_set(std::uint32_t processors, std::uint32_t cpus) : size_(processors), cpus_(cpus) {
    processors_.reserve(processors);
    sleepers_.reserve(processors);
  }
  idle_set(const idle_set&) = delete;
  idle_set& operator=(const idle_set&) = delete;

  // ---- without the lock: hints, but behind the fences of the idle protocol

  /// The number of idle processors, plus monitor_sleeps while the monitor sleeps. So one load tells a pusher whether
  /// there is anybody to wake.
  std::uint32_t word() const noexcept { return word_.load(std::memory_order_relaxed); }
  static constexpr std::uint32_t monitor_sleeps = 1U << 16;
  static constexpr std::uint32_t count_mask = monitor_sleeps - 1;

  std::uint32_t count() const noexcept { return word() & count_mask; }
  bool all_idle() const noexcept { return count() == size_; }

  /// Whether, with so many processors idle, a worker may be woken to run beside the others.
  bool may_wake(std::uint32_t idle) const noexcept { return idle != 0 && size_ - idle < cpus_; }

  std::uint32_t cpus() const noexcept { return cpus_; }

  /// The earliest timer of the idle processors.
  deadline earliest() const noexcept { return deadline_.load(std::memory_order_relaxed); }

  /// Whether a worker sleeps in the poller. A hint.
  bool anybody_polls() const noexcept { return poller_.load(std::memory_order_relaxed) != nullptr; }

  /// Changes whenever a processor ceases to be idle.
  std::uint64_t epoch() const noexcept { return epoch_.value(); }

  /// By the monitor, when it goes to sleep and when it wakes.
  void set_monitor_sleeps() noexcept { word_.fetch_or(monitor_sleeps, std::memory_order_seq_cst); }
  void clear_monitor_sleeps() noexcept { word_.fetch_and(~monitor_sleeps, std::memory_order_seq_cst); }

  // ---- workers that search, or have been woken to
  std::uint32_t searching() const noexcept { return searching_.load(std::memory_order_relaxed); }
  void add_searcher() noexcept { searching_.fetch_add(1, std::memory_order_seq_cst); }
  bool add_searcher_below(std::uint32_t most) noexcept {
    std::uint32_t now = searching();
    while (now < most)
      if (searching_.compare_exchange_weak(now, now + 1, std::memory_order_seq_cst)) return true;
    return false;
  }
  /// True: it was the last.
  bool remove_searcher() noexcept { return searching_.fetch_sub(1, std::memory_order_seq_cst) == 1; }

  /// The scheduler's coarse time. It is read by all who read word_, so it is in its cache line.
  std::int64_t coarse_time() const noexcept { return coarse_time_.load(std::memory_order_relaxed); }
  void set_coarse_time(std::int64_t time) noexcept { coarse_time_.store(time, std::memory_order_relaxed); }

  // ---- lock order: after the registry's, before processor::lock_ and the shared queues'
  void lock() noexcept { lock_.lock(); }
  void unlock() noexcept { lock_.unlock(); }

  // ---- under the lock

  /// A processor without an owner is idle.
  void put(processor& p) noexcept;
  bool has_processor() const noexcept { return !processors_.empty(); }
  std::size_t processors() const noexcept { return processors_.size(); }
  std::size_t sleepers() const noexcept { return sleepers_.size(); }
  std::uint32_t lost() const noexcept { return lost_; }

  /// Gives an idle processor, of which there must be one, to a worker that is no longer in sleepers_.
  processor& hand_over(worker& w) noexcept;

  /// Takes a sleeper out of sleepers_; null if there is none. It takes the worker in the poller only if no other worker
  /// sleeps, and the keeper only if no other sleeps but that one.
  worker* take_sleeper() noexcept;
  bool keeps(const worker& w) const noexcept { return keeper_ == &w; }
  void end_keeping(const worker& w) noexcept;  // if it does

  /// If `next` is before the keeper's deadline, w, which is about to sleep until then, becomes the keeper. Returns
  /// whether it does.
  bool keep(const worker& w, deadline next) noexcept;
  /// Whether no sleeper wakes in time for the idle processors' next timer.
  bool unkept() const noexcept { return earliest() < keeper_deadline_; }

  void add_sleeper(worker& w) noexcept { sleepers_.push_back(&w); }  // there is room: reserve_sleepers()
  void remove_sleeper(worker& w) noexcept { std::erase(sleepers_, &w); }
  void reserve_sleepers(std::size_t n) { sleepers_.reserve(n); }

  /// A worker has lost its processor; a lost one is not lost any more.
  void add_lost() noexcept { ++lost_; }
  void remove_lost() noexcept { --lost_; }

  /// Timers of idle processors have been fired.
  void publish_earliest() noexcept;

  /// w, which is about to sleep, sleeps in the poller if no other worker does (poller.hpp). Returns whether it does.
  bool begin_polling(const worker& w) noexcept;
  bool polls(const worker& w) const noexcept { return poller_.load(std::memory_order_relaxed) == &w; }
  void end_polling(const worker& w) noexcept;  // if it does

 private:
  friend struct debug_layout;

  int cost_of_taking(const worker& w) const noexcept;

  // Read by every push, written rarely.
  std::atomic<std::uint32_t> word_{0};
  std::atomic<std::uint32_t> searching_{0};
  std::atomic<deadline> deadline_{no_deadline};
  std::atomic<std::int64_t> coarse_time_{0};
  const std::uint32_t size_;  // how many processors there are
  const std::uint32_t cpus_;

  alignas(64) spin_lock lock_;
  std::vector<processor*> processors_;
  internal_vector<worker*> sleepers_;
  const worker* keeper_ = nullptr;  // the sleeper with the next deadline as its timeout
  deadline keeper_deadline_ = no_deadline;
  std::atomic<const worker*> poller_{nullptr};  // (any) the sleeper that is in the poller, or on its way in or out
  counter epoch_;                               // (any)
  std::uint32_t lost_ = 0;                      // workers that run a fiber without a processor
};

}  // namespace coir::detail
