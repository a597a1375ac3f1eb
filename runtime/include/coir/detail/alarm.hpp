// A function called once, at a deadline: what timers, tickers and deadlines of contexts are made of. Not for users: the
// spellings here may change.
//
// An alarm that a fiber arms lies with the timers of the fiber's processor, and that runtime's workers fire it. An
// alarm that a plain thread arms lies with those of a thread of the library's own (runtime/sched/outside_timers.hpp).
// Either counts as a pending timer: no deadlock is reported while an alarm might still wake a fiber. But it does not
// keep a runtime from ending: an alarm that lies with a runtime that has ended is never called.
#pragma once

#include <cstdint>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>

namespace coir::inline COIR_ABI::detail {

struct start_record;
struct timer_node;

/// An alarm is used by one thread or fiber at a time; its owner's lock, if it has one, ensures that. Each call may come
/// from another thread or fiber, which may hold spin locks.
class alarm {
 public:
  /// Called with nothing held, on a thread of the library; must not block, and not run code of the user.
  using function = void (*)(void* arg, std::uint64_t stamp) noexcept;

  alarm() noexcept = default;
  ~alarm() { disarm(); }
  alarm(const alarm&) = delete;
  alarm& operator=(const alarm&) = delete;

  /// Calls f(arg, stamp) once `when` has come; never on the caller's stack, even if `when` is past. arm() happens
  /// before the call of f. Not while armed (an alarm that has fired is not). f may arm it again. Throws std::bad_alloc,
  /// std::system_error (no thread).
  void arm(deadline when, function f, void* arg, std::uint64_t stamp = 0);

  /// Moves an armed alarm to another time and stamp where it lies, which costs less than disarm() and arm(). False, and
  /// nothing is changed, if that cannot be done: the alarm is not armed, f is being called, or it lies with another
  /// processor.
  bool move(deadline when, std::uint64_t stamp) noexcept;

  /// True: it was armed, and f will never be called. False: it was not armed, or f has been, or is being, called.
  bool disarm() noexcept;

 private:
  timer_node* node_ = nullptr;  // ours unless armed or dead (timer_heap.hpp)
};

/// Ends the process with a report. For an alarm's function, which cannot throw.
[[noreturn]] void no_memory_for(const char* what) noexcept;

/// A runtime by name: it may end meanwhile.
class runtime_name {
 public:
  /// The calling fiber's. Throws not_in_runtime, naming `what`, outside one.
  explicit runtime_name(const char* what);

  /// Makes the record runnable there and takes it over; false if that runtime has ended, or is about to. Never blocks;
  /// from any thread. It gets the greatest depth, since it may refer to the frame of the fiber that set the timer.
  bool start(start_record* record) const noexcept;

 private:
  std::uint64_t serial_;
};

}  // namespace coir::detail
