#include "observe/fiber_snapshot.hpp"

#include <algorithm>
#include <atomic>

#include <sys/uio.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>

#include "fiber/fiber.hpp"
#include "fiber/waiter_access.hpp"
#include "sched/worker.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::size_t most_bytes = std::size_t{64} * 1024;
constexpr std::size_t longest_name = 128;
constexpr int attempts = 4;

/// Reads a member that its fiber may be writing. Whether the value can be used is found out afterwards.
template <class T>
T glimpse(const T& x) noexcept {
  T value;
  __atomic_load(&x, &value, __ATOMIC_RELAXED);
  return value;
}

// Copies word by word, so that no pointer is torn, and without a call that sanitizers watch, because the stack has
// their poison in it.
using stack_word [[gnu::may_alias]] = std::uint64_t;
#if defined(COIR_ASAN)
[[gnu::no_sanitize_address]]
#endif
[[gnu::noinline]] void
copy_words(std::uint64_t* to, const char* from, std::size_t words) noexcept {
  const auto* source = reinterpret_cast<const stack_word*>(from);
  for (std::size_t i = 0; i < words; ++i) to[i] = __atomic_load_n(source + i, __ATOMIC_RELAXED);
}

/// Copies a context that is not on its fiber's own stack, but on that of a generator or coroutine, whose bounds are not
/// known here. The kernel copies it, page by page, as far as there is memory.
void copy_unknown(stack_copy& out) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<iovec> pages;
  for (std::uintptr_t at = out.address, end = at + most_bytes; at < end;) {
    const std::uintptr_t next = std::min(end, (at / page + 1) * page);
    pages.push_back({reinterpret_cast<void*>(at), next - at});
    at = next;
  }
  out.words.resize(most_bytes / sizeof(std::uint64_t));
  const iovec local{out.words.data(), most_bytes};
  const ssize_t n = ::process_vm_readv(::getpid(), &local, 1, pages.data(), pages.size(), 0);
  out.words.resize(n > 0 ? static_cast<std::size_t>(n) / sizeof(std::uint64_t) : 0);
  out.whole = static_cast<std::size_t>(std::max<ssize_t>(n, 0)) < most_bytes;
}

void copy_stack(fiber& f, stack_copy& out) {
  const auto context = reinterpret_cast<std::uintptr_t>(glimpse(f.suspended));
  const auto bottom = reinterpret_cast<std::uintptr_t>(f.bottom);
  const auto top = reinterpret_cast<std::uintptr_t>(&f);
  out.words.clear();
  out.whole = false;
  out.address = context;
  if (context == 0 || context % sizeof(std::uint64_t) != 0) return;
  if (context < bottom || context >= top) return copy_unknown(out);
  const std::size_t bytes = std::min<std::size_t>(top - context, most_bytes);
  out.whole = bytes == top - context;
  out.words.resize(bytes / sizeof(std::uint64_t));
  copy_words(out.words.data(), reinterpret_cast<const char*>(context), out.words.size());
}

/// One attempt. False: the fiber has moved on meanwhile.
bool try_snapshot(fiber& f, fiber_snapshot& out) {
  const std::uint64_t word = waiter_access::acquire_word(f.wait);
  const run_state state = f.state.load(std::memory_order_acquire);
  const bool blocked = (word & waiter::state_mask) == waiter::waiting;
  const machine_context suspended = glimpse(f.suspended);
  out.id = glimpse(f.id);
  std::atomic_thread_fence(std::memory_order_acquire);  // the id, then what belongs to it: see run_fiber()
  out.spawn_file = glimpse(f.spawn_file);
  out.spawn_line = glimpse(f.line);
  out.name.clear();
  f.name.copy_to(out.name, longest_name);
  if (blocked) {
    out.is = fiber_snapshot::state::blocked;
    out.word = word;
    out.why.what = glimpse(f.why.what);
    out.why.on = glimpse(f.why.on);
    out.since = glimpse(f.since);
    copy_stack(f, out.stack);
  } else if (state == run_state::queued) {
    out.is = fiber_snapshot::state::queued;
    copy_stack(f, out.stack);
  } else {
    out.is = fiber_snapshot::state::running;
    out.stack.words.clear();
    const worker* on = glimpse(f.on);  // workers live as long as their runtime
    out.thread = on != nullptr ? on->thread_id.load(std::memory_order_relaxed) : 0;
  }
  out.certain = blocked;
  std::atomic_thread_fence(std::memory_order_acquire);  // all of the above, then the words again
  if (glimpse(f.id) != out.id || f.state.load(std::memory_order_relaxed) != state) return false;
  if (out.is == fiber_snapshot::state::running) return true;
  return f.wait.word() == word && glimpse(f.suspended) == suspended;
}

}  // namespace

bool take_snapshot(fiber& f, fiber_snapshot& out) {
  for (int i = 0; i < attempts; ++i) {
    if (f.state.load(std::memory_order_acquire) == run_state::free) return false;
    if (try_snapshot(f, out)) return true;
  }
  // The fiber does not stand still, so it runs.
  out.is = fiber_snapshot::state::running;
  out.stack.words.clear();
  return f.state.load(std::memory_order_acquire) != run_state::free;
}

std::optional<wait_glimpse> glimpse_wait(const fiber& f) noexcept {
  const std::uint64_t word = waiter_access::acquire_word(f.wait);
  if ((word & waiter::state_mask) != waiter::waiting) return std::nullopt;
  const wait_glimpse seen{word, glimpse(f.since), glimpse(f.timer) != nullptr};
  std::atomic_thread_fence(std::memory_order_acquire);  // all of the above, then the word again
  if (f.wait.word() != word) return std::nullopt;
  return seen;
}

}  // namespace coir::detail
