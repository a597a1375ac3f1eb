// Switching stacks, on Boost.Context's fcontext layer.
//
// On x86-64 the address that a suspended context continues at is a `ret`. Arriving there pops the entry of the CPU's
// return predictor that the other side's call has pushed. If both sides wait in the same functions, which is the usual
// case, all returns that follow are predicted right.
//
// Rejected: boost::context::fiber, which wraps this layer. Its resume() leaves the return predictor one entry off: a
// call pushes an entry, and jump_fcontext() leaves by an indirect jump. So each return from there up to the user's code
// is predicted wrongly. In a ping-pong over channels those were half of the time.
#pragma once

#include <cstddef>

#include <boost/context/detail/fcontext.hpp>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

/// A suspended stack; null while it runs.
using machine_context = boost::context::detail::fcontext_t;

/// What arrives with control: the context that was left, and nothing of interest.
using arrival = boost::context::detail::transfer_t;

#if defined(__x86_64__) && !defined(COIR_ASAN)
extern "C" arrival coir_jump_context(machine_context to) noexcept;
#else
inline arrival coir_jump_context(machine_context to) noexcept {
  return boost::context::detail::jump_fcontext(to, nullptr);
}
#endif

/// Suspends the running context and runs `to`. Returns the context that was left to come back here.
[[gnu::always_inline]] inline machine_context switch_context(machine_context to) noexcept {
  return coir_jump_context(to).fctx;
}

/// A context that will call entry(), which must not return, on the stack of `size` bytes below `top`.
inline machine_context make_context(void* top, std::size_t size, void (*entry)(arrival)) noexcept {
  return boost::context::detail::make_fcontext(top, size, entry);
}

}  // namespace coir::detail
