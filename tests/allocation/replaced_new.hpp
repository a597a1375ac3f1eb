// operator new and delete of this program. While a `coir_heap` lives each call of them locks a coir::mutex, and every
// few calls on a fiber yield with it locked, so that others find it taken. A call from where no code of the user may
// run ends the process with a report: from inside a bracket, from a worker's native stack, or while the calling fiber
// has begun a wait and does not sleep yet.
#pragma once

namespace allocation {

class coir_heap {
 public:
  coir_heap();
  ~coir_heap();
  coir_heap(const coir_heap&) = delete;
  coir_heap& operator=(const coir_heap&) = delete;

  /// How often operator new has been called on fibers meanwhile.
  long calls_on_fibers() const;

  /// How often such a call, or one of delete, found the mutex locked.
  long contended() const;
};

}  // namespace allocation
