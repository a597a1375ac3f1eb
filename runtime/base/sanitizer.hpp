// Tells the sanitizers about switches of stacks. In a plain build these functions are empty.
//
// ThreadSanitizer: each stack is one TSan fiber. A switch to it is no synchronization, so that it does not hide the
// races of fibers that happen to run after each other on one thread. The edges that the program may rely on (start,
// wake-up, reuse of a stack) are given explicitly. The runtime's own sources are not instrumented in such a build:
// their ordering comes from protocols (the processor bracket, membarrier) that TSan cannot see.
#pragma once

#include <algorithm>
#include <cstddef>

#include <coir/detail/abi.hpp>

#if defined(COIR_TSAN)
#include <sanitizer/tsan_interface.h>
#endif
#if defined(COIR_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif

namespace coir::inline COIR_ABI::detail {

#if defined(COIR_TSAN)
using tsan_fiber = void*;
inline tsan_fiber tsan_create() { return __tsan_create_fiber(0); }
inline void tsan_destroy(tsan_fiber f) { __tsan_destroy_fiber(f); }
inline tsan_fiber tsan_current() { return __tsan_get_current_fiber(); }
inline void tsan_switch(tsan_fiber f) { __tsan_switch_to_fiber(f, __tsan_switch_to_fiber_no_sync); }
/// Actions on the stack that is left happen before actions on this one.
inline void tsan_switch_in_order(tsan_fiber f) { __tsan_switch_to_fiber(f, 0); }
inline void tsan_release(void* p) { __tsan_release(p); }
inline void tsan_acquire(void* p) { __tsan_acquire(p); }
#else
struct tsan_fiber {};
inline tsan_fiber tsan_create() { return {}; }
inline void tsan_destroy(tsan_fiber) {}
inline tsan_fiber tsan_current() { return {}; }
inline void tsan_switch(tsan_fiber) {}
inline void tsan_release(void*) {}
inline void tsan_acquire(void*) {}
#endif

/// For sections of the runtime that use the heap, or copy with a function that TSan watches, under a lock or a protocol
/// that it does not see.
class tsan_section {
 public:
  explicit tsan_section(void* p) : p_(p) { tsan_acquire(p_); }
  ~tsan_section() { tsan_release(p_); }
  tsan_section(const tsan_section&) = delete;
  tsan_section& operator=(const tsan_section&) = delete;

 private:
  void* p_;
};

/// Where AddressSanitizer keeps the fake stack of a suspended context, and the bounds of its real one.
struct asan_stack {
#if defined(COIR_ASAN)
  void* fake = nullptr;
  const void* bottom = nullptr;
  std::size_t size = 0;
#endif
};

#if defined(COIR_ASAN)
/// Just before a switch. `from` null: the context ends here, its fake stack is freed.
inline void asan_start_switch(asan_stack* from, const asan_stack& to) {
  __sanitizer_start_switch_fiber(from != nullptr ? &from->fake : nullptr, to.bottom, to.size);
}
/// First thing on the stack switched to. Learns the bounds of a stack that coir did not make (a thread's).
inline void asan_finish_switch(const asan_stack& self, asan_stack* learn) {
  const void* bottom = nullptr;
  std::size_t size = 0;
  __sanitizer_finish_switch_fiber(self.fake, &bottom, &size);
  if (learn != nullptr) {
    learn->bottom = bottom;
    learn->size = size;
  }
}
inline void asan_unpoison(const void* p, std::size_t n) { __asan_unpoison_memory_region(p, n); }
/// What is reachable from there is not leaked.
inline void lsan_reach_from(const void* p, std::size_t n) { __lsan_register_root_region(p, n); }

/// Poisons the stack from `bottom` to `end`, whose function has ended, until the next function starts there. So a use
/// of a variable of the ended function is reported. Only the upper part, where such variables were, is poisoned,
/// because the shadow of a whole stack would take long to write.
inline constexpr bool watches_ended_stacks = true;
inline constexpr std::size_t poisoned_part = 16 * 1024;
inline std::size_t asan_ended_part(const char* bottom, const void* end) {
  return std::min(poisoned_part, static_cast<std::size_t>(static_cast<const char*>(end) - bottom));
}
inline void asan_end_stack(const char* bottom, const void* end) {
  const std::size_t n = asan_ended_part(bottom, end);
  __asan_poison_memory_region(static_cast<const char*>(end) - n, n);
}
inline void asan_begin_stack(const char* bottom, const void* end) {
  const std::size_t n = asan_ended_part(bottom, end);
  asan_unpoison(static_cast<const char*>(end) - n, n);
}
#else
inline void asan_start_switch(asan_stack*, const asan_stack&) {}
inline void asan_finish_switch(const asan_stack&, asan_stack*) {}
inline void asan_unpoison(const void*, std::size_t) {}
inline void lsan_reach_from(const void*, std::size_t) {}
inline constexpr bool watches_ended_stacks = false;
inline void asan_end_stack(const char*, const void*) {}
inline void asan_begin_stack(const char*, const void*) {}
#endif

}  // namespace coir::detail
