#include "stack/sized_stacks.hpp"

#include <mutex>

#include <sys/mman.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>

#include "base/sanitizer.hpp"
#include "fiber/fiber.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::size_t kept_as_they_are = 4;  // free ones of a class
constexpr std::size_t kept_below = 2048;     // the context: the red zone, and what a switch may have left there

std::size_t page_size() noexcept {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

/// The sizes are the powers of two, and between each two of them one and a half of the lower one.
constexpr std::size_t bytes_of(sized_stacks::size_class c) noexcept {
  const std::size_t power = smallest_stack << ((c - 1) / 2);
  return (c - 1) % 2 == 0 ? power : power / 2 * 3;
}
static_assert(bytes_of(1) == smallest_stack && bytes_of(2) == smallest_stack / 2 * 3 && bytes_of(33) == largest_stack);

/// Gives back the memory below the suspended context, as far as the red zone allows.
void give_back(const fiber& f) noexcept {
  const auto end = (reinterpret_cast<std::uintptr_t>(f.suspended) - kept_below) & ~std::uintptr_t{page_size() - 1};
  const auto bottom = reinterpret_cast<std::uintptr_t>(f.bottom);
  if (end > bottom) ::madvise(f.bottom, end - bottom, MADV_DONTNEED);
}

}  // namespace

sized_stacks::~sized_stacks() {
  for (auto& p : pools_) delete p.load(std::memory_order_relaxed);
}

sized_stacks::size_class sized_stacks::prepare(std::size_t size) {
  size_class c = 1;
  while (bytes_of(c) < size) ++c;
  if (pools_[c].load(std::memory_order_acquire) == nullptr) {
    auto fresh = std::make_unique<stack_pool>(bytes_of(c));
    tsan_release(fresh.get());
    stack_pool* none = nullptr;
    if (pools_[c].compare_exchange_strong(none, fresh.get(), std::memory_order_acq_rel))
      static_cast<void>(fresh.release());
  }
  return c;
}

void sized_stacks::made(fiber& f) {
  const std::lock_guard locked(lock_);
  const tsan_section section(this);
  fibers_.push_back(&f);
}

void sized_stacks::put(fiber& f) noexcept {
  stack_pool& to = pool(f.stack_class);
  if (to.free_count() >= kept_as_they_are) give_back(f);
  asan_end_stack(f.bottom, f.suspended);
  fiber* one = &f;
  to.put(&one, 1);
}

internal_vector<fiber*> sized_stacks::fibers() {
  const std::lock_guard locked(lock_);
  const tsan_section section(this);
  return fibers_;
}

stack_pool::counts sized_stacks::count() noexcept {
  stack_pool::counts all{0, 0};
  for (auto& p : pools_) {
    stack_pool* const each = p.load(std::memory_order_acquire);
    if (each == nullptr) continue;
    const stack_pool::counts its = each->count();
    all.made += its.made;
    all.free += its.free;
  }
  return all;
}

}  // namespace coir::detail
