// COIR_DEBUG=heldlock=1: reports a fiber that leaves its thread (parks, yields or ends) while it holds a mutex or
// read-write lock of the operating system: whoever then runs on the thread and wants it, waits for itself; and the
// fiber may go on, and unlock it, on another thread, which it must not. What is held is noted by libcoir_lockcheck
// (lockcheck/), without which the option is refused.
#pragma once

namespace coir::detail {

struct fiber;

/// Has libcoir_lockcheck note what fibers lock, from now on. Throws std::invalid_argument if it is not loaded.
void watch_locks();

/// By the thread that runs f, before it runs another: `how` it leaves, and on what it will wait. Once for each place
/// that locks.
[[gnu::cold]] void report_held_locks(const fiber& f, const char* how, const char* what) noexcept;

}  // namespace coir::detail
