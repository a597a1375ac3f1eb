// What is to happen when a thread ends. Not by a thread_local's destructor: those run once, but what they have ended
// may be made anew by a later one's, and then ends, too.
#pragma once

#include <new>

#include <cxxabi.h>

extern "C" void* __dso_handle;  // NOLINT: the toolchain's name

namespace coir::detail {

/// Calls f(nullptr) when this thread ends. Throws std::bad_alloc.
inline void at_thread_end(void (*f)(void*)) {
  if (abi::__cxa_thread_atexit(f, nullptr, &__dso_handle) != 0) throw std::bad_alloc();
}

}  // namespace coir::detail
