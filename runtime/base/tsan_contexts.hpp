// How many contexts ThreadSanitizer has to keep for coir: one for each stack (sanitizer.hpp). To it each is a thread,
// and it ends a process that has more than some 8,100 threads. So where there are many contexts, a free stack gives its
// own up, and gets another when it is used again; and the process is told before it is ended. Nothing in a plain build.
#pragma once

#include <coir/detail/abi.hpp>

#include "base/sanitizer.hpp"

namespace coir::inline COIR_ABI::detail {

#if defined(COIR_TSAN)
/// The caller has made a context. Reports, once, that there are too many soon.
void tsan_context_made() noexcept;

/// Destroys it, if there is one.
void tsan_context_end(tsan_fiber context) noexcept;

/// For a free stack, which is not running: destroys its context if there are many. Actions on the stack happen before
/// actions there in the next context, since both use the same memory. Otherwise the two are not ordered.
void tsan_context_give_up(tsan_fiber& context, void* stack) noexcept;

/// Before the stack runs: makes a context if it has none, which has no part in the past of the caller.
void tsan_context_renew(tsan_fiber& context, void* stack) noexcept;
#else
inline void tsan_context_made() noexcept {}
inline void tsan_context_end(tsan_fiber) noexcept {}
inline void tsan_context_give_up(tsan_fiber&, void*) noexcept {}
inline void tsan_context_renew(tsan_fiber&, void*) noexcept {}
#endif

}  // namespace coir::detail
