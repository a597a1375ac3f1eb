// The stacks of generators and coroutines: one pool for the process, since these need no runtime. By size class, a
// power of two each; the memory and the guards are stack_pool's. What is given back is kept, and taken again last in,
// first out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sanitizer.hpp"

namespace coir::detail {

/// At the very top of its stack.
struct pooled_stack {
  pooled_stack* next;  // while it is free
  char* bottom;        // lowest usable byte
  std::size_t size_class;
  std::size_t guard_size;  // bytes below bottom whose touch is a fault
  pooled_stack* older;     // all that were ever made, for coroutine_stack_above_guard()
  [[no_unique_address]] tsan_fiber tsan;
};

/// A stack of that many bytes, the guard included. Throws std::system_error.
pooled_stack* take_coroutine_stack(std::size_t bytes);
void put_coroutine_stack(pooled_stack* s) noexcept;

/// The stack in whose guard the address lies; null if it lies in none. Async-signal-safe.
const pooled_stack* coroutine_stack_above_guard(std::uintptr_t address) noexcept;

}  // namespace coir::detail
