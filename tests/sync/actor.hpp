// Someone who acts beside a test's main fiber: a fiber or a plain OS thread, so that a test can be written once for
// both.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <ostream>
#include <thread>
#include <utility>

#include <coir/detail/park.hpp>
#include <coir/runtime.hpp>

#include "coir_test.hpp"

namespace sync_test {

enum class kind { fiber, thread };
inline constexpr kind both_kinds[] = {kind::fiber, kind::thread};

inline std::ostream& operator<<(std::ostream& out, kind k) { return out << (k == kind::fiber ? "fiber" : "thread"); }

/// Made by a fiber. Rethrows in join() what its function threw.
class actor {
 public:
  template <class F>
  actor(kind k, F f) : state_(std::make_unique<state>()) {
    if (k == kind::fiber) {
      task_ = coir::spawn(std::move(f));
      return;
    }
    thread_ = std::thread([s = state_.get(), f = std::move(f)]() mutable {
      s->waiter.store(&coir::detail::this_waiter(), std::memory_order_release);
      try {
        f();
      } catch (...) {
        s->error = std::current_exception();
      }
      s->ended.store(true, std::memory_order_release);
      // The thread's waiter must live as long as somebody may look at it.
      while (!s->leave.load(std::memory_order_acquire)) std::this_thread::yield();
    });
  }
  actor(actor&&) = default;
  ~actor() {
    if (thread_.joinable()) end_thread();
  }

  /// Not beside or after join().
  bool ended() const { return task_.valid() ? task_.ready() : state_->ended.load(std::memory_order_acquire); }

  /// Returns once it sleeps in a blocking call; a thread: or has ended, if its wait had a limit that has passed.
  void until_blocked() const {
    if (task_.valid()) return coir_test::until_blocked(task_);
    coir_test::until([this] {
      const coir::detail::waiter* w = state_->waiter.load(std::memory_order_acquire);
      if (state_->ended) return true;
      return w != nullptr && (w->word() & coir::detail::waiter::state_mask) == coir::detail::waiter::waiting;
    });
  }

  /// Fibers only.
  void cancel() const { task_.request_stop(); }

  void join() {
    if (task_.valid()) return task_.get();
    end_thread();
    if (state_->error) std::rethrow_exception(state_->error);
  }

 private:
  struct state {
    std::atomic<coir::detail::waiter*> waiter{nullptr};
    std::atomic<bool> ended{false};
    std::atomic<bool> leave{false};
    std::exception_ptr error;
  };

  void end_thread() {
    coir_test::until([this] { return state_->ended.load(std::memory_order_acquire); });
    state_->leave.store(true, std::memory_order_release);
    thread_.join();
  }

  std::unique_ptr<state> state_;
  coir::task<void> task_;
  std::thread thread_;
};

}  // namespace sync_test
