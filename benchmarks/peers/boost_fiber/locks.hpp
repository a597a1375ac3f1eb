// The locks of Boost.Fiber, for the workloads that are the same as coir's. It has no shared mutex.
#pragma once

#include <cstddef>

#include "../../workloads/counts.hpp"
#include "crew.hpp"

namespace peer {

/// Boost.Fiber has no semaphore. The nearest is what Go uses: a buffered channel, of which each value is a permit
/// taken. It holds a power of two less one.
class channel_semaphore {
 public:
  explicit channel_semaphore(int permits) : taken_(static_cast<std::size_t>(permits) + 1) {}

  void acquire() { taken_.push(0); }
  bool try_acquire() { return taken_.try_push(0) == fibers::channel_op_status::success; }
  void release() { taken_.value_pop(); }

 private:
  fibers::buffered_channel<char> taken_;
};

struct boost_fibers {
  using mutex = fibers::mutex;
  using semaphore = channel_semaphore;

  static void yield() { boost::this_fiber::yield(); }

  template <class F>
  static void side_by_side(int count, F f) {
    wait_group done(count);
    for (int i = 0; i < count; ++i) {
      go([&done, f] {
        f();
        done.done();
      });
    }
    done.wait();
  }
};

}  // namespace peer
