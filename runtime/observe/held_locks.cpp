#include "observe/held_locks.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <stdexcept>

#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>

#include "base/backtrace.hpp"
#include "base/raw_calls.hpp"
#include "fiber/fiber.hpp"
#include "observe/lockcheck/lockcheck_interface.hpp"
#include "sched/worker.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::size_t most_locks = 8;
constexpr std::size_t most_sites = 256;  // later ones are not reported

constinit std::atomic<const lock_table*> locks{nullptr};

[[gnu::noinline]] std::uint64_t fiber_here() noexcept {
  const fiber* f = current_fiber();
  return f != nullptr ? f->id : 0;
}

/// Whether that place has not been seen yet.
bool is_news(void* site) noexcept {
  static constinit std::array<std::atomic<void*>, most_sites> seen{};
  for (std::atomic<void*>& each : seen) {
    void* there = nullptr;
    if (each.compare_exchange_strong(there, site, std::memory_order_relaxed)) return true;
    if (there == site) return false;
  }
  return false;
}

}  // namespace

void watch_locks() {
  const auto* found = static_cast<const lock_table*>(::dlsym(RTLD_DEFAULT, "coir_lock_table"));
  if (found == nullptr || found->version != lock_table::current_version)
    throw std::invalid_argument(
        "coir: COIR_DEBUG: heldlock needs coir's own libcoir_lockcheck.so, preloaded (LD_PRELOAD) or linked with the "
        "program");
  prepare_backtrace();
  locks.store(found, std::memory_order_release);
  found->watch(&fiber_here);
}

// The fiber's primitive may be locked, and the runtime's bracket is open: nothing is called that could block a fiber,
// and no heap.
void report_held_locks(const fiber& f, const char* how, const char* what) noexcept {
  const lock_table* table = locks.load(std::memory_order_acquire);
  if (table == nullptr) return;
  std::array<held_lock, most_locks> held;
  const std::size_t n = table->take(f.id, held.data(), held.size());
  for (std::size_t i = 0; i < n; ++i) {
    const held_lock& h = held[i];
    if (h.count == 0 || !is_news(h.calls[0])) continue;
    char text[512];
    const char* quote = f.name ? " \"" : "";
    const int length =
        std::snprintf(text, sizeof text,
                      "coir: fiber %" PRIu64
                      "%s%s%s, spawned at %s:%u, %s%s while it holds a lock of "
                      "the operating system (%p), locked in\n",
                      f.id, quote, f.name.text(), f.name ? "\"" : "", f.spawn_file, f.line, how, what, h.lock);
    if (length > 0)
      (void)!raw_write(STDERR_FILENO, text, std::min<std::size_t>(static_cast<std::size_t>(length), sizeof text - 1));
    ::backtrace_symbols_fd(h.calls, h.count, STDERR_FILENO);
    constexpr char here[] = "coir: it is in\n";
    (void)!raw_write(STDERR_FILENO, here, sizeof here - 1);
    write_backtrace();
  }
}

}  // namespace coir::detail
