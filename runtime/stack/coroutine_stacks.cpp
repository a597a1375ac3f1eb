#include "stack/coroutine_stacks.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include <coir/detail/abi.hpp>

#include "base/immortal.hpp"
#include "base/shadow_stack.hpp"
#include "base/tsan_contexts.hpp"
#include "stack/stack_pool.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::size_t smallest_bits = std::countr_zero(smallest_stack);
constexpr std::size_t stack_class_count = std::countr_zero(largest_stack) - smallest_bits + 1;
constexpr std::size_t most_kept = 1024;
constexpr std::size_t most_kept_bytes = 256 * 1024 * 1024;  // if each was used to its end

constexpr std::size_t stack_class_of(std::size_t bytes) noexcept {
  const auto bits = static_cast<std::size_t>(std::bit_width(bytes - 1));
  return bits <= smallest_bits ? 0 : bits - smallest_bits;
}
constexpr std::size_t stack_class_bytes(std::size_t index) noexcept {
  return std::size_t{1} << (index + smallest_bits);
}

constexpr std::size_t kept(std::size_t index) noexcept {
  return std::clamp(most_kept_bytes / stack_class_bytes(index), std::size_t{1}, most_kept);
}

struct alignas(64) size_class {
  spin_lock lock;  // order: none is taken while it is held
  pooled_stack* free = nullptr;
  std::size_t free_count = 0;
  std::mutex making;  // held across system calls
};

// Never destroyed: a generator may be a static object, or belong to a thread that ends later.
std::array<size_class, stack_class_count>& classes() { return immortal<std::array<size_class, stack_class_count>>(); }

// Made when it is first needed; never destroyed, for the same reason.
constinit std::array<std::atomic<stack_pool*>, stack_class_count> pools{};

/// Where the owner of a stack keeps its notes about it.
void* header_of(const stack_pool::stack& s) noexcept { return s.top - sizeof(pooled_stack); }

pooled_stack* make(size_class& c, std::size_t index) {
  stack_pool* pool = pools[index].load(std::memory_order_acquire);
  if (pool == nullptr) {
    refuse_shadow_stack();
    // Not under the lock: operator new may be the user's.
    auto fresh = std::make_unique<stack_pool>(stack_class_bytes(index));
    // acq_rel: pairs with the other loads of it.
    if (pools[index].compare_exchange_strong(pool, fresh.get(), std::memory_order_acq_rel)) pool = fresh.release();
  }
  const std::lock_guard locked(c.making);
  const stack_pool::stack s = pool->make();
  tsan_acquire(header_of(s));  // its last user's traces on it, if its memory was given back
  tsan_context_made();
  return ::new (header_of(s)) pooled_stack{nullptr, s.bottom, index, s.number, 0, nullptr, tsan_create()};
}

/// Cuts stacks from a class that has one too many: some that were freed last, except for the very last, which is the
/// warmest.
pooled_stack* cut_surplus(size_class& c) noexcept {
  pooled_stack* const first = c.free->next;
  pooled_stack* last = first;
  for (std::size_t i = 1; i < stack_pool::part_stacks; ++i) last = last->next;
  c.free->next = last->next;
  last->next = nullptr;
  c.free_count -= stack_pool::part_stacks;
  return first;
}

void give_memory_back(pooled_stack* list) noexcept {
  stack_pool& pool = *pools[list->size_class].load(std::memory_order_acquire);  // from which they come
  std::array<stack_pool::stack, stack_pool::part_stacks> stacks;
  std::size_t count = 0;
  while (list != nullptr) {
    pooled_stack* const s = std::exchange(list, list->next);
    stacks[count++] = {s->bottom, reinterpret_cast<char*>(s + 1), s->number};
    tsan_context_end(s->tsan);
  }
  pool.give_back(stacks.data(), count);
}

}  // namespace

std::size_t coroutine_stacks_kept(std::size_t bytes) noexcept { return kept(stack_class_of(bytes)); }

pooled_stack* take_coroutine_stack(std::size_t bytes) {
  const std::size_t index = stack_class_of(bytes);
  size_class& c = classes()[index];
  c.lock.lock();
  pooled_stack* s = c.free;
  if (s != nullptr) {
    c.free = s->next;
    --c.free_count;
  }
  c.lock.unlock();
  if (s == nullptr) return make(c, index);
  asan_begin_stack(s->bottom, s);
  tsan_acquire(s);  // its last user's traces on it
  return s;
}

void put_coroutine_stack(pooled_stack* s) noexcept {
  tsan_release(s);
  asan_end_stack(s->bottom, s);
  const std::size_t index = s->size_class;
  size_class& c = classes()[index];
  pooled_stack* surplus = nullptr;
  c.lock.lock();
  s->next = c.free;
  c.free = s;
  if (++c.free_count > kept(index) + stack_pool::part_stacks) [[unlikely]]
    surplus = cut_surplus(c);
  c.lock.unlock();
  if (surplus != nullptr) [[unlikely]]
    give_memory_back(surplus);
}

const pooled_stack* coroutine_stack_above_guard(std::uintptr_t address) noexcept {
  for (const std::atomic<stack_pool*>& pool : pools) {
    const stack_pool* const p = pool.load(std::memory_order_acquire);  // pairs with make()
    if (p == nullptr) continue;
    const std::optional<stack_pool::stack> s = p->stack_above_guard(address);
    if (!s) continue;
    const auto* header = static_cast<const pooled_stack*>(header_of(*s));
    return header->block != nullptr ? header : nullptr;  // null: never used, or given back
  }
  return nullptr;
}

}  // namespace coir::detail
