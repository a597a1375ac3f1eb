#include "coroutine_stacks.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>
#include <new>

#include "immortal.hpp"
#include "stack_pool.hpp"

namespace coir::detail {

namespace {

constexpr std::size_t smallest_bits = std::countr_zero(smallest_stack);
constexpr std::size_t stack_class_count = std::countr_zero(largest_stack) - smallest_bits + 1;

constinit std::atomic<pooled_stack*> newest{nullptr};  // the first of the list by pooled_stack::older

struct alignas(64) size_class {
  spin_lock lock;  // order: before stack_pool's
  pooled_stack* free = nullptr;
  std::mutex making;  // guards pool, which is made when it is first needed; held across system calls
  std::unique_ptr<stack_pool> pool;
};

// Never destroyed: a generator may be a static object, or belong to a thread that ends later.
std::array<size_class, stack_class_count>& classes() { return immortal<std::array<size_class, stack_class_count>>(); }

pooled_stack* make(size_class& c, std::size_t index) {
  const std::lock_guard locked(c.making);
  if (!c.pool) c.pool = std::make_unique<stack_pool>(std::size_t{1} << (index + smallest_bits));
  const stack_pool::stack s = c.pool->make();
  void* top = s.top - sizeof(pooled_stack);
  auto* made = ::new (top) pooled_stack{
      nullptr, s.bottom, index, c.pool->guard_size(), newest.load(std::memory_order_relaxed), tsan_create()};
  // release: pairs with coroutine_stack_above_guard(), on whatever thread
  while (!newest.compare_exchange_weak(made->older, made, std::memory_order_release, std::memory_order_relaxed))
    continue;
  return made;
}

}  // namespace

pooled_stack* take_coroutine_stack(std::size_t bytes) {
  const auto bits = static_cast<std::size_t>(std::bit_width(bytes - 1));
  const std::size_t index = bits <= smallest_bits ? 0 : bits - smallest_bits;
  size_class& c = classes()[index];
  c.lock.lock();
  pooled_stack* s = c.free;
  if (s != nullptr) c.free = s->next;
  c.lock.unlock();
  if (s == nullptr) return make(c, index);
  asan_begin_stack(s->bottom, s);
  tsan_acquire(s);  // its last user's traces on it
  return s;
}

void put_coroutine_stack(pooled_stack* s) noexcept {
  tsan_release(s);
  asan_end_stack(s->bottom, s);
  size_class& c = classes()[s->size_class];
  c.lock.lock();
  s->next = c.free;
  c.free = s;
  c.lock.unlock();
}

const pooled_stack* coroutine_stack_above_guard(std::uintptr_t address) noexcept {
  for (const pooled_stack* s = newest.load(std::memory_order_acquire); s != nullptr; s = s->older) {
    const auto bottom = reinterpret_cast<std::uintptr_t>(s->bottom);
    if (address < bottom && bottom - address <= s->guard_size) return s;
  }
  return nullptr;
}

}  // namespace coir::detail
