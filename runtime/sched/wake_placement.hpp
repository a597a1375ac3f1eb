// Keeps a worker that is being woken off its waker's CPU, because the waker goes on there.
//
// The kernel puts a woken thread on an idle CPU if it looks for one. On machines with few CPUs that are half busy it
// does not look (it scans as many CPUs as it expects to be worth while) and puts the woken worker on its waker's CPU.
// There the worker waits until the waker sleeps, or takes the waker's place, although another CPU is idle. Both run one
// after the other what was to run at once. So for the time of a wake-up the waker's CPU is taken out of the set of CPUs
// that the sleeper may run on.
//
//   waker    saves the sleeper's set, takes its own CPU out of it and hands a processor over, under the idle set's lock
//   sleeper  puts the saved set back once it has seen, under the same lock, that it has a processor
//
// So no other thread saves the set in between, and the waker does not change the set of a sleeper that has left.
//
// The set is read each time, so that a change from outside (taskset) is not undone. If reading or setting it is
// refused, or would leave no CPU, the kernel alone decides.
//
// Rejected: each worker gets a CPU of its own. Another process on that CPU would hold up the worker while other CPUs
// idle.
#pragma once

#include <sched.h>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

class wake_placement {
 public:
  /// By the waker, while the thread sleeps. 0: it has not said its id yet, and nothing is done.
  void keep_off_this_cpu(int thread_id) noexcept;

  /// By the thread itself.
  void restore() noexcept {
    if (displaced_) put_back();
  }

 private:
  void put_back() noexcept;

  bool displaced_ = false;
  cpu_set_t own_;
};

}  // namespace coir::detail
