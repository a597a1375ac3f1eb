// Limits how many contexts ThreadSanitizer has to keep for coir: one for each stack (sanitizer.hpp). To TSan each is a
// thread, and it ends a process that has more than some 8,100 threads. So if there are many contexts, a free stack
// gives up its own, and gets another when it is used again. And the process is told before it is ended. Nothing in a
// plain build.
#pragma once

#include <coir/detail/abi.hpp>

#include "base/sanitizer.hpp"

namespace coir::inline COIR_ABI::detail {

#if defined(COIR_TSAN)
/// The caller has made a context. Reports, once, that there will soon be too many.
void tsan_context_made() noexcept;

/// Destroys it, if there is one.
void tsan_context_end(tsan_fiber context) noexcept;

/// For a free stack, which is not running: destroys its context if there are many. Actions on the stack happen before
/// actions there in the next context, since both use the same memory. Otherwise the two are not ordered.
void tsan_context_give_up(tsan_fiber& context, void* stack) noexcept;

/// Called before the stack runs: makes a context if it has none. The caller's past is no part of that context's.
void tsan_context_renew(tsan_fiber& context, void* stack) noexcept;
#else
inline void tsan_context_made() noexcept {}
inline void tsan_context_end(tsan_fiber) noexcept {}
inline void tsan_context_give_up(tsan_fiber&, void*) noexcept {}
inline void tsan_context_renew(tsan_fiber&, void*) noexcept {}
#endif

}  // namespace coir::detail
