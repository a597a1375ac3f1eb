// What a workload that is the same for coir and for a peer needs: the locks, and so many fibers side by side. The peers
// in peers/ have the like over Boost.Fiber and over threads.
#pragma once

#include <coir/mutex.hpp>
#include <coir/runtime.hpp>
#include <coir/semaphore.hpp>
#include <coir/shared_mutex.hpp>
#include <coir/wait_group.hpp>

namespace bench {

struct coir_fibers {
  using mutex = coir::mutex;
  using semaphore = coir::semaphore;
  using shared_mutex = coir::shared_mutex;

  static void yield() { coir::yield(); }

  /// Runs f in so many fibers, and waits for all.
  template <class F>
  static void side_by_side(int count, F f) {
    coir::wait_group done;
    done.add(count);
    for (int i = 0; i < count; ++i) {
      coir::go([&done, f] {
        f();
        done.done();
      });
    }
    done.wait();
  }
};

}  // namespace bench
