// A runtime's workers, and the source of more of them when no worker sleeps: a worker without a thread gets one;
// otherwise a new worker is made, up to options::max_threads. At first there is a worker for each processor. The first
// worker's thread starts with the runtime. The other threads start on their first wake-up.
//
// Everything is under the idle set's lock, except where it says otherwise.
//
// Invariants:
//  1. A worker stays where it is for the life of the runtime, so it may be named without a lock.
//  2. `started` is set while its thread lives or is about to be started. take() sets it. retire() clears it, or the
//     caller of take() does if no thread can be started.
//  3. A worker without a thread is in no other list. Its last thread may still run the destructors of its
//     thread_locals, which are the user's and may wait for fibers. The worker gets no other thread until that one has
//     exited. Only the destructor of the runtime waits for that.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include <coir/detail/abi.hpp>

#include "base/internal_memory.hpp"

namespace coir::inline COIR_ABI::detail {

class idle_set;
class scheduler;
class worker;

class worker_supply {
 public:
  worker_supply(scheduler& home, std::size_t processors, std::size_t max_threads, bool check_locks);
  ~worker_supply();
  worker_supply(const worker_supply&) = delete;
  worker_supply& operator=(const worker_supply&) = delete;

  /// Returns a worker that had no thread; start() is called for it next. Null: there are max_threads workers, and
  /// threads of some are about to end. If none is, ends the process, with `idle` unlocked. Throws std::bad_alloc.
  worker* take(scheduler& home, idle_set& idle);

  /// Starts its thread. Without the lock. Returns 0, or the error.
  static int start(worker& w) noexcept;

  /// Reports once that no thread could be started. Without the lock.
  void report(int error) noexcept;

  /// Its thread is about to end; no processor needs it.
  static void retire(worker& w) noexcept;

  std::size_t started_count() const noexcept;
  internal_vector<worker*> started() const;
  unsigned index_of(const worker& w) const noexcept;

  /// The runtime ends: its threads do not count any more (registry.hpp). Then, without the lock, they are woken and
  /// joined.
  void forget_threads() noexcept;
  void end_threads() noexcept;

 private:
  std::unique_ptr<worker> make(scheduler& home) const;

  const std::size_t processors_;
  const std::size_t max_threads_;
  const bool check_locks_;  // COIR_DEBUG=heldlock
  internal_vector<std::unique_ptr<worker>> workers_;
  std::atomic<bool> failure_reported_{false};
};

}  // namespace coir::detail
