#include "sched/fiber_stacks.hpp"

#include <algorithm>
#include <new>

#include <coir/detail/abi.hpp>

#include "base/prefetch.hpp"
#include "base/sanitizer.hpp"
#include "fiber/fiber.hpp"
#include "fiber/waiter_access.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

/// Prefetches what a fiber touches when it begins on a free stack: the control block, the context below it, and the
/// room for its first calls, as far down as a sleep_for() goes.
[[gnu::always_inline]] inline void prefetch_stack(const fiber* f) noexcept {
  constexpr std::size_t below = 11;
  constexpr std::size_t of_block = 3;
  prefetch_lines<below + of_block>(reinterpret_cast<const char*>(f) - below * cache_line);
}

}  // namespace

fiber* fiber_stacks::take(processor& p, size_class c) noexcept {
  fiber* f = nullptr;
  if (c != 0) [[unlikely]] {
    if (sized_.pool(c).take(&f, 1) == 0) return nullptr;
  } else {
    std::size_t free = p.stack_count.value();
    if (free == 0) [[unlikely]] {
      p.cold_stacks = free = common_.take(p.stacks, processor::stack_cache / 2);
      if (free == 0) return nullptr;
    }
    f = p.stacks[--free];
    p.stack_count.set(free);
    if (free < p.cold_stacks) [[unlikely]] {
      p.cold_stacks = free;
      if (free >= 2) prefetch_stack(p.stacks[free - 2]);
    }
  }
  asan_begin_stack(f->bottom, f->suspended);
  return f;
}

fiber& fiber_stacks::make(scheduler& home, size_class c, void (*entry)(arrival)) {
  stack_pool& pool = c == 0 ? common_ : sized_.pool(c);
  const stack_pool::stack s = pool.make();
  auto aligned = reinterpret_cast<std::uintptr_t>(s.top - sizeof(fiber)) & ~std::uintptr_t{63};
  auto* f = ::new (reinterpret_cast<void*>(aligned)) fiber(home, s.number, s.bottom, s.top);
  f->stack_class = c;
  waiter_access::seed(f->wait, pool.incarnation());
  pool.made(*f);
  if (c != 0) sized_.made(*f);
  const auto size = static_cast<std::size_t>(reinterpret_cast<char*>(f) - s.bottom);
#if defined(COIR_ASAN)
  f->asan.bottom = s.bottom;
  f->asan.size = size;
#endif
  f->suspended = make_context(f, size, entry);
  return *f;
}

void fiber_stacks::put(processor* held, fiber& f) noexcept {
  if (f.stack_class != 0) [[unlikely]] {
    sized_.put(f);
    return;
  }
  asan_end_stack(f.bottom, f.suspended);
  if (held == nullptr) [[unlikely]] {
    fiber* one = &f;
    common_.put(&one, 1);
    return;
  }
  processor& p = *held;
  std::size_t free = p.stack_count.value();
  if (free == processor::stack_cache) [[unlikely]] {
    free = processor::stack_cache / 2;  // the colder half goes to the shared store
    p.cold_stacks -= std::min(p.cold_stacks, processor::stack_cache - free);
    common_.put(p.stacks, processor::stack_cache - free);
    const tsan_section section(&p);
    std::copy(p.stacks + processor::stack_cache - free, p.stacks + processor::stack_cache, p.stacks);
  }
  p.stacks[free] = &f;
  p.stack_count.set(free + 1);
}

const stack_pool& fiber_stacks::pool_of(const fiber& f) const noexcept {
  return f.stack_class == 0 ? common_ : sized_.pool(f.stack_class);
}

internal_vector<fiber*> fiber_stacks::all() {
  internal_vector<fiber*> both = common_.fibers();
  const internal_vector<fiber*> sized = sized_.fibers();
  both.insert(both.end(), sized.begin(), sized.end());
  return both;
}

stack_pool::counts fiber_stacks::count() noexcept {
  stack_pool::counts both = common_.count();
  const stack_pool::counts sized = sized_.count();
  both.made += sized.made;
  both.free += sized.free;
  return both;
}

}  // namespace coir::detail
