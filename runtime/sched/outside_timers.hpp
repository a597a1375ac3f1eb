// The timers of threads without a processor: alarms that plain threads arm. A thread of the library's own fires them.
// It starts when the first alarm is armed, sleeps while none is due, and is joined when the process exits.
//
// The thread counts as one of the runtimes' own, so that it does not make a deadlock uncertain; an alarm that is
// pending here, or being called, does.
#pragma once

#include <cstdint>

#include <coir/detail/abi.hpp>

#include "timer/timer_heap.hpp"

namespace coir::inline COIR_ABI::detail::outside_timers {

/// Arms the alarm whose timer node is `node`. `node` is set before the alarm can be called: its function may arm it
/// again, and a caller that is late must not overwrite that node. Throws std::bad_alloc, std::system_error (no thread).
void arm(timer_node*& node, deadline when, void (*fire)(void*, std::uint64_t) noexcept, void* arg, std::uint64_t stamp);

/// Frees the node. True: it had not fired, and never will.
bool disarm(timer_node* n) noexcept;

/// Whether one is armed, or being called.
bool pending() noexcept;

}  // namespace coir::detail::outside_timers
