// The C++ runtime's exception state of a thread of execution (Itanium C++ ABI, 2.2.2): the stack of caught exceptions
// and the count of uncaught ones. The ABI keeps it per OS thread; a fiber takes its own along at every switch.
#pragma once

#include <version>

#include <cxxabi.h>

#include <coir/detail/abi.hpp>

#if defined(_LIBCPP_VERSION)  // libc++abi exports it and does not declare it
namespace __cxxabiv1 {        // NOLINT(bugprone-reserved-identifier)
struct __cxa_eh_globals;      // NOLINT(bugprone-reserved-identifier)
extern "C" __cxa_eh_globals* __cxa_get_globals() noexcept;
}  // namespace __cxxabiv1
#endif

namespace coir::inline COIR_ABI::detail {

/// The public head of __cxa_eh_globals, which libstdc++ and libc++abi share.
struct exception_state {
  void* caught = nullptr;
  unsigned int uncaught = 0;
  unsigned int padding = 0;  // copied along: then all of it is one move
};
static_assert(sizeof(exception_state) == 2 * sizeof(void*));

/// The calling thread's, stable for its life.
inline exception_state* thread_exception_state() noexcept {
  return reinterpret_cast<exception_state*>(abi::__cxa_get_globals());
}

}  // namespace coir::detail
