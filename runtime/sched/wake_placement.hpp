// Where a worker that is being woken is to run: on another CPU than its waker, which goes on on its own.
//
// The kernel puts a woken thread on an idle CPU if it looks for one; but on machines with few CPUs that are half busy
// it does not look (it scans as many CPUs as it expects to be worth while), and the woken worker is put on its waker's
// CPU: there it waits until the waker sleeps, or takes the waker's place, beside a CPU that is idle. Both make what was
// to run at once run one after the other. So for the time of a wake the waker's CPU is taken out of the set of those
// that the sleeper may run on.
//
//   waker    saves the sleeper's set, takes its own CPU out of it and hands a processor over, under the idle set's lock
//   sleeper  puts the saved set back once it has seen, under the same lock, that it has a processor
//
// So nobody else saves the set in between, nor does the waker change the set of a sleeper that has left.
//
// The set is read each time, so that a change from outside (taskset) is not undone. Where that is refused, or would
// leave no CPU, the kernel decides alone.
//
// Rejected: a CPU of its own for each worker. Another process on that CPU would hold up the worker while others idle.
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
