// The stacks of generators and coroutines. The pools belong to the process, since generators and coroutines need no
// runtime. Each size class is a power of two. stack_pool provides the memory and the guards. A free stack is kept, and
// taken again last in, first out. The memory of more stacks than a class keeps (coroutine_stacks_kept()) goes back to
// the system, some at a time. The thread that frees one stack too many does this: there may be no other thread, and
// nothing may happen after the last is freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <coir/detail/abi.hpp>

#include "base/sanitizer.hpp"

namespace coir::inline COIR_ABI::detail {

/// At the very top of its stack, while that is in use or kept.
struct pooled_stack {
  pooled_stack* next;  // while it is free
  char* bottom;        // lowest usable byte
  std::size_t size_class;
  std::size_t number;     // stack_pool's
  std::size_t asked = 0;  // by the body's options; this and the next belong to the stack's user
  void* block = nullptr;  // above what the body's frames may use
  [[no_unique_address]] tsan_fiber tsan;
};

/// A stack of that many bytes, the guard not included. Throws std::system_error, std::bad_alloc.
pooled_stack* take_coroutine_stack(std::size_t bytes);
void put_coroutine_stack(pooled_stack* s) noexcept;

/// How many free ones of that many bytes keep their memory.
std::size_t coroutine_stacks_kept(std::size_t bytes) noexcept;

/// The stack, of those in use or kept, in whose guard the address lies; null if it lies in none. Async-signal-safe.
const pooled_stack* coroutine_stack_above_guard(std::uintptr_t address) noexcept;

}  // namespace coir::detail
