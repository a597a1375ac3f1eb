// Tells Valgrind where stacks lie. It then takes a change of the stack pointer from one stack to another for a switch,
// and not for a frame of that size. If coir is built without Valgrind's header, this does nothing. With it, it costs
// one comparison for each new stack unless the program runs under Valgrind.
#pragma once

#include <cstddef>

#include <coir/detail/abi.hpp>

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>

#include "base/internal_memory.hpp"
#endif

namespace coir::inline COIR_ABI::detail {

/// The stacks of one pool; forgotten with it. Used by one thread at a time.
class valgrind_stacks {
#if __has_include(<valgrind/memcheck.h>)
 public:
  valgrind_stacks() noexcept : under_valgrind_(RUNNING_ON_VALGRIND != 0) {}
  ~valgrind_stacks() {
    for ([[maybe_unused]] const unsigned id : ids_) VALGRIND_STACK_DEREGISTER(id);
  }
  valgrind_stacks(const valgrind_stacks&) = delete;
  valgrind_stacks& operator=(const valgrind_stacks&) = delete;

  void add([[maybe_unused]] char* bottom, [[maybe_unused]] char* end) {
    if (under_valgrind_) ids_.push_back(VALGRIND_STACK_REGISTER(bottom, end - 1));
  }

 private:
  const bool under_valgrind_;
  internal_vector<unsigned> ids_;
#else
 public:
  void add(char*, char*) noexcept {}
#endif
};

/// A part of a stack that is not the caller's is about to be written. Valgrind may have taken it for lost since another
/// owner's frames have gone.
inline void valgrind_take([[maybe_unused]] void* p, [[maybe_unused]] std::size_t n) noexcept {
#if __has_include(<valgrind/memcheck.h>)
  VALGRIND_MAKE_MEM_UNDEFINED(p, n);
#endif
}

}  // namespace coir::detail
