// Actions at the end of a thread. A thread_local's destructor is not enough: it runs once, but a later destructor may
// create the object anew, and that one has to end too.
#pragma once

#include <new>

#include <cxxabi.h>

#include <coir/detail/abi.hpp>

extern "C" void* __dso_handle;  // NOLINT: the toolchain's name

namespace coir::inline COIR_ABI::detail {

/// Calls f(nullptr) when this thread ends. Throws std::bad_alloc.
inline void at_thread_end(void (*f)(void*)) {
  if (abi::__cxa_thread_atexit(f, nullptr, &__dso_handle) != 0) throw std::bad_alloc();
}

}  // namespace coir::detail
