// Objects that the whole process shares. They are never destroyed: static objects may use them while the process ends,
// and so may threads that go on meanwhile.
#pragma once

#include <cstddef>
#include <new>

#include <coir/detail/abi.hpp>

#include "base/sanitizer.hpp"

namespace coir::inline COIR_ABI::detail {

/// The process's one T; the first caller makes it. ThreadSanitizer does not see how the others wait for that, since the
/// runtime is not instrumented: it is told.
template <class T>
T& immortal() {
  alignas(T) static std::byte memory[sizeof(T)];  // not operator new's, which may be the user's: others wait here
  static T* const one = [] {
    T* const made = ::new (static_cast<void*>(memory)) T;
    tsan_release(made);
    return made;
  }();
  tsan_acquire(one);
  return *one;
}

}  // namespace coir::detail
