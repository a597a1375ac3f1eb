// The threads that Boost.Fiber's schedulers run on, and a wait group, which Boost.Fiber lacks.
//
// One thread: round_robin, its fastest algorithm there. More: work_stealing, whose threads either spin when they have
// nothing to do (its default) or sleep; which is faster depends on the row, and each row says which it takes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <boost/fiber/all.hpp>

namespace peer {

namespace fibers = boost::fibers;

enum class when_idle { spin, sleep };

/// Fibers started while one lives run on all its threads; the calling thread is one of them.
class crew {
 public:
  crew(unsigned threads, when_idle idle) {
    if (threads == 1) {
      fibers::use_scheduling_algorithm<fibers::algo::round_robin>();
      return;
    }
    const bool sleeps = idle == when_idle::sleep;
    std::atomic<unsigned> ready{0};
    for (unsigned i = 1; i < threads; ++i) {
      threads_.emplace_back([this, threads, sleeps, &ready] {
        fibers::use_scheduling_algorithm<fibers::algo::work_stealing>(threads, sleeps);
        std::unique_lock lock(mutex_);
        ready.fetch_add(1);
        end_.wait(lock, [this] { return ended_; });  // runs fibers meanwhile
      });
    }
    fibers::use_scheduling_algorithm<fibers::algo::work_stealing>(threads, sleeps);
    while (ready.load() != threads - 1) std::this_thread::yield();
  }

  ~crew() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    end_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

  crew(const crew&) = delete;
  crew& operator=(const crew&) = delete;

 private:
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  fibers::condition_variable_any end_;
  bool ended_ = false;
};

class wait_group {
 public:
  explicit wait_group(int count) : count_(count) {}

  void done() {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    const std::lock_guard lock(mutex_);
    zero_ = true;
    at_zero_.notify_all();
  }

  void wait() {
    std::unique_lock lock(mutex_);
    at_zero_.wait(lock, [this] { return zero_; });
  }

 private:
  std::atomic<int> count_;
  fibers::mutex mutex_;
  fibers::condition_variable at_zero_;
  bool zero_ = false;
};

template <class F>
void go(F&& f) {
  fibers::fiber(std::forward<F>(f)).detach();
}

}  // namespace peer
