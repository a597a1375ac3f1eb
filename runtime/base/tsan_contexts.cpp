#include <coir/detail/abi.hpp>

#include "base/tsan_contexts.hpp"

#if defined(COIR_TSAN)

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <mutex>

#include <coir/detail/spin_lock.hpp>

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::size_t plenty = 1024;     // so many may belong to free stacks
constexpr std::size_t too_many = 8'000;  // the limit is 8,128; threads count too

constinit std::atomic<std::size_t> contexts{0};  // a count; orders nothing
constinit spin_lock making;                      // guards nobody(); taken last

/// A context that runs nothing. TSan takes the maker of a context for the starter of a thread: the maker's past happens
/// before the thread's beginning. This context has next to no past.
tsan_fiber nobody() {
  static tsan_fiber const context = tsan_create();
  return context;
}

}  // namespace

void tsan_context_made() noexcept {
  if (contexts.fetch_add(1, std::memory_order_relaxed) + 1 != too_many) return;
  std::fprintf(
      stderr,
      "coir: there are %zu stacks of fibers, generators and coroutines at once. To ThreadSanitizer each is a "
      "thread, and it ends a process that has more than some 8,100 threads. Under ThreadSanitizer let fewer of "
      "them be alive at a time.\n",
      too_many);
}

void tsan_context_end(tsan_fiber context) noexcept {
  if (context == nullptr) return;
  contexts.fetch_sub(1, std::memory_order_relaxed);
  tsan_destroy(context);
}

void tsan_context_give_up(tsan_fiber& context, void* stack) noexcept {
  if (context == nullptr || contexts.load(std::memory_order_relaxed) <= plenty) return;
  tsan_fiber const caller = tsan_current();
  tsan_switch(context);
  tsan_release(stack);
  tsan_switch(caller);
  tsan_context_end(context);
  context = nullptr;
}

void tsan_context_renew(tsan_fiber& context, void* stack) noexcept {
  if (context != nullptr) return;
  tsan_fiber const caller = tsan_current();
  {
    const std::lock_guard locked(making);
    tsan_switch(nobody());
    context = tsan_create();
    tsan_switch(context);
  }
  tsan_acquire(stack);
  tsan_switch(caller);
  tsan_context_made();
}

}  // namespace coir::detail

#endif
