#include "sched/outside_timers.hpp"

#include <atomic>
#include <mutex>
#include <system_error>

#include <coir/detail/abi.hpp>
#include <coir/detail/spin_lock.hpp>

#include "base/clock.hpp"
#include "base/futex.hpp"
#include "base/immortal.hpp"
#include "sched/registry.hpp"

namespace coir::inline COIR_ABI::detail::outside_timers {

namespace {

constexpr deadline awake = 0;  // before every deadline

class service {
 public:
  void arm(timer_node*& node, deadline when, void (*fire)(void*, std::uint64_t) noexcept, void* arg,
           std::uint64_t stamp) {
    if (!running_.load(std::memory_order_acquire)) {
      if (const int error = start(); error != 0) throw std::system_error(error, std::generic_category());
    }
    timer_node* n = make_timer(nullptr, when, fire, arg, stamp);
    n->announced = true;
    lock_.lock();
    try {
      heap_.push(*n);
    } catch (...) {
      lock_.unlock();
      free_timer(n);
      throw;
    }
    node = n;
    const deadline next = heap_.earliest();
    const bool sooner = next < sleeps_until_;
    if (sooner) {
      sleeps_until_ = next;
      signal_.fetch_add(1, std::memory_order_relaxed);
    }
    lock_.unlock();
    if (sooner) futex_wake(signal_);
  }

  bool disarm(timer_node* n) noexcept {
    lock_.lock();
    const bool armed = n->word.load(std::memory_order_relaxed) == timer_node::state::armed;
    if (armed) {
      heap_.erase(*n);
      heap_.clean();  // it may have become much smaller
    }
    lock_.unlock();
    if (!armed) free_timer(n);
    return armed;
  }

  bool pending() noexcept {
    lock_.lock();
    const bool yes = calling_ || heap_.live() != 0;
    lock_.unlock();
    return yes;
  }

 private:
  /// Ends the thread when the process exits. An alarm that is armed even later starts a thread that nobody ends.
  struct at_exit {
    service& home;
    ~at_exit() { home.stop(); }
  };

  /// Returns 0, or the error.
  int start() {
    const std::lock_guard locked(starting_);
    if (running_.load(std::memory_order_relaxed)) return 0;
    stopping_ = false;
    const int error = runtime_threads::start(
        thread_,
        [](void* self) -> void* {
          static_cast<service*>(self)->work();
          return nullptr;
        },
        this);
    if (error != 0) return error;
    if (exiting_) thread_.detach();
    running_.store(true, std::memory_order_release);  // pairs with the load in arm()
    static const at_exit ender{*this};
    return 0;
  }

  void stop() noexcept {
    const std::lock_guard locked(starting_);
    exiting_ = true;
    runtime_threads::forget(1);
    lock_.lock();
    stopping_ = true;
    signal_.fetch_add(1, std::memory_order_relaxed);
    lock_.unlock();
    futex_wake(signal_);
    thread_.join();
    running_.store(false, std::memory_order_relaxed);
  }

  void work() noexcept {
    for (;;) {
      lock_.lock();
      const bool stopping = stopping_;
      due_timer due;
      if (!stopping && heap_.earliest() != no_deadline) due = heap_.pop_due(monotonic_now());
      calling_ = static_cast<bool>(due);
      const deadline next = due ? awake : heap_.earliest();
      sleeps_until_ = next;
      const std::uint32_t seen = signal_.load(std::memory_order_relaxed);
      lock_.unlock();
      if (stopping) return;
      if (due)
        due();
      else
        futex_wait(signal_, seen, next);  // signal_ moves, under the lock, with whatever makes `next` too late
    }
  }

  spin_lock lock_;  // guards the next four; the innermost but for the allocator's
  timer_heap heap_;
  bool calling_ = false;  // a timer has been popped, and its function has not returned
  bool stopping_ = false;
  deadline sleeps_until_ = awake;  // when the thread will look again by itself
  std::atomic<std::uint32_t> signal_{0};

  std::mutex starting_;
  std::atomic<bool> running_{false};
  bool exiting_ = false;
  native_thread thread_;
};

service& the_service() { return immortal<service>(); }

}  // namespace

void arm(timer_node*& node, deadline when, void (*fire)(void*, std::uint64_t) noexcept, void* arg,
         std::uint64_t stamp) {
  the_service().arm(node, when, fire, arg, stamp);
}

bool disarm(timer_node* n) noexcept { return the_service().disarm(n); }

bool pending() noexcept { return the_service().pending(); }

}  // namespace coir::detail::outside_timers
