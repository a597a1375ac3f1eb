// The recording side of traces (<coir/trace.hpp>). A worker's trace() is its ring while a trace is recorded, and null
// else: who looks whether it is watched() (relaxed: the ring was complete before) pays a load and a predictable branch,
// and calls these functions, all out of line, only if it is. The check of held locks (held_locks.hpp) is made in them
// too, so that there is one such branch; then there may be no ring.
//
// Every event is recorded by the worker's own thread, into its own ring, so it needs neither a processor nor a lock.
// What others do to the worker, they leave for it in worker::lost_at, and it records that first (see trace_lost()).
// Cost: one reading of the time stamp counter a switch; a wake-up has no time of its own, and is put between its
// neighbours when the trace is written.
#pragma once

#include <cstdint>

#include "fiber/fiber.hpp"
#include "sched/worker.hpp"

namespace coir::detail {

class scheduler;

/// Before a switch from `from` to `to` (null: the native stack), with worker::what_after filled in.
[[gnu::cold]] void trace_switch(worker& w, const fiber* from, fiber* to) noexcept;

/// A fiber begins; where it was spawned has been filled in. It gets the id of its record, if that has one, which it
/// would take a little later.
[[gnu::cold]] void trace_begin(worker& w, fiber& f) noexcept;

/// By the waker, before the fiber can run.
[[gnu::cold]] void trace_wake(worker& w, fiber& f) noexcept;

/// The running fiber ends, and its name is about to go; or what it carried has gone to sleep.
[[gnu::cold]] void trace_end(worker& w, const fiber& f) noexcept;

[[gnu::cold]] void trace_steal(worker& w, const processor& thief, std::uint32_t fibers) noexcept;

/// The worker is about to lose its processor: by whoever takes it, before the worker can know, or by itself.
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
