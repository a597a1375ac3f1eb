// The control block of a started fiber. It lives at the top of its stack, so that a parked fiber costs one page, and
// it outlives the fibers: a stack that lost its fiber goes to a free list with its context suspended in stack_main(),
// and the next fresh fiber starts there.
//
// It may be touched by the fiber itself while it runs; by its waker, until it is in a run queue; and by the processor
// that holds it there. Members marked (any) are read by other threads at any time.
#pragma once

#include <atomic>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>
#include <coir/detail/start_record.hpp>
#include <coir/fiber_id.hpp>

#include "base/context_switch.hpp"
#include "base/exception_state.hpp"
#include "base/sanitizer.hpp"
#include "fiber/fiber_name.hpp"
#include "fiber/fiber_stop.hpp"
#include "timer/timer_heap.hpp"

namespace coir::inline COIR_ABI::detail {

class local_table;
class scheduler;
class worker;
struct async_segment;

enum class run_state : std::uint8_t { free, queued, running };

/// What a fiber did the last times after it had made another one runnable (idle.cpp). If it went on computing, the
/// woken fiber had better run elsewhere. If it parked soon, the woken fiber runs next on the same processor. Zero: it
/// computes. Each wake-up that came too late adds one. From `parks` on nobody is woken. A fiber that begins takes over
/// the value of the fiber before it on this stack.
namespace waker_habit {
inline constexpr std::uint8_t computes = 0, unknown = 1, parks = 3;
}

struct alignas(64) fiber : runnable {
  fiber(scheduler& s, std::size_t number, char* b, char* t) noexcept
      : runnable(kind::suspended),
        stack_number(static_cast<std::uint32_t>(number)),
        home(&s),
        bottom(b),
        top(t),
        tsan(tsan_create()) {}

  // --- first line and the beginning of the second: what a switch touches
  machine_context suspended = nullptr;  // stored by the context that runs after the switch
  worker* on = nullptr;                 // where it runs now; set at each switch to it, so re-read it after each switch
  waiter wait{waiter::kind::fiber};

  // --- second line
  exception_state exceptions;
  timer_node* timer = nullptr;  // of the wait in progress
  std::int64_t since = 0;       // when it parked, or yielded with a processor, by scheduler::coarse_time()
  std::atomic<run_state> state{run_state::free};  // (any) `blocked` is running plus a waiting word
  bool wake_traced = false;                       // an arrow of the trace leads to its next run
  bool in_deadlock = false;                       // unwound because of one
  bool carried_on = false;  // the coroutine that it carried went to sleep: it ends, but not as a fiber
  std::atomic<std::uint8_t> habit{waker_habit::unknown};  // (any)
  std::uint32_t stack_number;                             // the pool's
  wait_reason why{"nothing", nullptr};                    // the last here

  // --- third line: what else beginning and ending touch
  start_record* record = nullptr;  // what a stack that is being started shall run
  const char* spawn_file = "?";
  std::uint64_t id = 0;
  scheduler* home;
  local_table* locals = nullptr;  // of its fiber_locals, once it has used one
  fiber_stop stop;                // (any)
  fiber_name name;                // (any)

  // --- cold
  async_segment* carries = nullptr;  // the async that runs on it
  std::int64_t runnable_since = 0;   // while `what` is kind::timed
  char* bottom;                      // lowest usable byte, above the guard
  char* top;                         // just above this block's region
  [[no_unique_address]] tsan_fiber tsan;
  [[no_unique_address]] asan_stack asan;
};

inline fiber& fiber_of(waiter& w) noexcept {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
  return *reinterpret_cast<fiber*>(reinterpret_cast<char*>(&w) - offsetof(fiber, wait));
#pragma GCC diagnostic pop
}

/// "fiber 7 "name", spawned at main.cpp:12"
std::ostream& operator<<(std::ostream& out, const fiber& f);
std::string describe(const fiber& f);

/// Cancels the wait that the fiber is in, and all to come. The caller makes sure that the control block stays this
/// fiber's, or does not mind if it does not. Returns the fiber's stop source, if it has one, to be signalled with no
/// lock held.
[[nodiscard]] std::optional<std::stop_source> cancel_fiber(fiber& f) noexcept;

/// An id for a fiber that has not started.
fiber_id new_fiber_id() noexcept;

/// Drops what a fiber leaves behind when its function has returned.
void end_fiber(fiber& f) noexcept;

}  // namespace coir::detail
