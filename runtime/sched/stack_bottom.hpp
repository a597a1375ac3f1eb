// The outermost frame of a fiber's stack, and what happens to an exception that is not caught there.
//
// Throwing has two phases: a search for a handler, which leaves the stack as it is, and then the unwinding up to that
// handler. A report made in a handler comes too late: the frames that have thrown are gone, from the backtrace and from
// the core file. So between a fiber's function and the bottom of its stack nothing handles an exception but
// `cancelled`, and the bottom takes part in the search: it has a personality routine, which is asked when no frame
// above it has a handler, and which makes the report and calls std::terminate() right there. For gdb and backtrace()
// the stack ends at this frame.
//
// The frame is entered once in a stack's life, so fibers that begin and end on it pay nothing.
//
// It is written for x86-64. Elsewhere run_fiber() catches what is left, and reports it after the unwinding.
//
// Rejected: no handler at all, which also ends in std::terminate() with the whole stack. The report would have to be
// made by a terminate handler, which is the program's own.
#pragma once

#include <coir/detail/abi.hpp>

#include "base/context_switch.hpp"

namespace coir::inline COIR_ABI::detail {

struct fiber;

#if defined(__x86_64__)
#define COIR_REPORTS_BEFORE_UNWINDING 1
/// The entry of a new stack: calls coir_stack_entry(), which does not return.
extern "C" void coir_stack_bottom(arrival from);
#endif

/// Called in a handler of what left the function of this fiber, the running one. Reports it and calls std::terminate().
[[noreturn, gnu::cold]] void die_of_exception(const fiber& self) noexcept;

}  // namespace coir::detail
