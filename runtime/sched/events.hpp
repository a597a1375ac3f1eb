// The recording side of traces (<coir/trace.hpp>). While a trace is recorded, a worker's trace() is its ring; otherwise
// it is null. The hot path tests watched() (relaxed: the ring was complete before), which is a load and a predictable
// branch. It calls these functions, all out of line, only if the test is true. They also make the check of held locks
// (held_locks.hpp), so that one branch serves both; then there may be no ring.
//
// Every event is recorded by the worker's own thread, into its own ring, so it needs neither a processor nor a lock.
// Other threads leave their events for the worker in worker::lost_at, and it records those first (see trace_lost()).
// Cost: one reading of the time stamp counter a switch. A wake-up has no time of its own: it is placed between its
// neighbours when the trace is written.
#pragma once

#include <cstdint>

#include <coir/detail/abi.hpp>

#include "fiber/fiber.hpp"
#include "sched/worker.hpp"

namespace coir::inline COIR_ABI::detail {

class scheduler;

/// Before a switch from `from` to `to` (null: the native stack), with worker::what_after filled in.
[[gnu::cold]] void trace_switch(worker& w, const fiber* from, fiber* to) noexcept;

/// A fiber begins; where it was spawned has been filled in. It gets the id of its record, if that has one, which it
/// would take a little later.
[[gnu::cold]] void trace_begin(worker& w, fiber& f) noexcept;

/// By the waker, before the fiber can run.
[[gnu::cold]] void trace_wake(worker& w, fiber& f) noexcept;

/// The running fiber ends, and its name is about to be freed; or the coroutine that it carried has gone to sleep.
[[gnu::cold]] void trace_end(worker& w, const fiber& f) noexcept;

[[gnu::cold]] void trace_steal(worker& w, const processor& thief, std::uint32_t fibers) noexcept;

/// The worker is about to lose its processor. Called by the thread that takes it, before the worker can know, or by the
/// worker itself.
[[gnu::cold]] void trace_lost(worker& w, const char* why) noexcept;

/// The worker's running fiber has a processor again.
[[gnu::cold]] void trace_regained(worker& w) noexcept;

namespace tracer {

/// A runtime begins: it takes part in the trace that is being recorded. Starts that of COIR_TRACE. Throws
/// std::system_error.
void attach(scheduler& s);

/// Its workers have ended.
void detach(scheduler& s) noexcept;

/// By a worker's thread, first.
void join(worker& w) noexcept;

}  // namespace tracer

}  // namespace coir::detail
