#include "runtime_link.hpp"

#include <atomic>

#include <pthread.h>

#include <coir/detail/abi.hpp>

using coir::detail::hook_services;
using coir::detail::hook_table;

namespace {

constinit std::atomic<const hook_services*> runtime{nullptr};

void serve(const hook_services& services) noexcept {
  if (services.version != hook_services::current_version) return;
  // The child of a fork has none of the runtime's threads, and shares the parent's epoll: its calls are plain again.
  ::pthread_atfork(nullptr, nullptr, [] { runtime.store(nullptr, std::memory_order_release); });
  runtime.store(&services, std::memory_order_release);
}

}  // namespace

extern "C" {
[[gnu::visibility("default")]] extern const hook_table coir_hook_table;
constinit const hook_table coir_hook_table = {hook_table::current_version, &serve};
}

namespace coir::inline COIR_ABI::hooks {

const hook_services* any_runtime() noexcept { return runtime.load(std::memory_order_acquire); }

const hook_services* fiber_runtime() noexcept {
  const hook_services* const r = any_runtime();
  return r != nullptr && r->in_fiber() ? r : nullptr;
}

const hook_services* fiber_runtime(int fd) noexcept {
  const hook_services* const r = fiber_runtime();
  return r != nullptr && !r->is_owned(fd) ? r : nullptr;
}

}  // namespace coir::hooks
