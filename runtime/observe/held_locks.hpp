// COIR_DEBUG=heldlock=1: reports a fiber that leaves its thread (parks, yields or ends) while it holds a mutex or
// read-write lock of the operating system. The next fiber on the thread that wants the lock would wait for itself. And
// the fiber may continue, and unlock it, on another thread, which is not allowed. libcoir_lockcheck (lockcheck/) notes
// the held locks; without it the option is refused.
#pragma once

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

struct fiber;

/// Has libcoir_lockcheck note what fibers lock, from now on. Throws std::invalid_argument if it is not loaded.
void watch_locks();

/// Called by the thread that runs f, before it runs another fiber. `how`: how f leaves the thread. `what`: the reason
/// of its wait. Reports once for each place that locks.
[[gnu::cold]] void report_held_locks(const fiber& f, const char* how, const char* what) noexcept;

}  // namespace coir::detail
