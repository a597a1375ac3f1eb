#include <coir/detail/abi.hpp>

#include "sched/worker.hpp"

#include "sched/events.hpp"
#include "sched/processor.hpp"
#include "sched/scheduler.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

// How long a holder-to-be waits: for an answer from a worker that enters the runtime all the time; and, after the
// fence, for a worker inside to leave (its sections are short, but the operating system may have descheduled it there).
constexpr unsigned answer_spins = 300;
constexpr unsigned leave_spins = 2000;

inline void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Never the same again in the life of the process: a worker's last answer stays for as long as it sleeps.
std::uint64_t new_ticket() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

constinit thread_local worker* worker_of_this_thread = nullptr;

[[gnu::noinline]] worker* current_worker() noexcept {
  asm volatile("" ::: "memory");  // not pure: two calls are never merged
  return worker_of_this_thread;
}

void set_current_worker(worker* w) noexcept { worker_of_this_thread = w; }

// For instrumented sources (spin_lock.hpp); this one is not. Every switch releases it.
void acquire_own_thread() noexcept;
void acquire_own_thread() noexcept {
  if (worker* w = current_worker()) tsan_acquire(&w->thread);
}

[[gnu::noinline]] processor* worker::step_aside() noexcept {
  backoff wait;
  for (;;) {
    // release: what was done in earlier brackets; pairs with the acquire loads in processor::try_lock().
    in_runtime_.store(0, std::memory_order_release);
    // acquire: pairs with processor::unlock(), so that this worker sees what the holder did.
    while (const std::uint64_t ticket = interrupt_.load(std::memory_order_acquire)) {
      if (ticket == retaken) return nullptr;
      stepped_aside_.store(ticket, std::memory_order_release);
      wait();
    }
    in_runtime_.store(1, std::memory_order_relaxed);
    light_fence();
    if (interrupt_.load(std::memory_order_acquire) == 0) return held;
  }
}

bool processor::try_lock() noexcept {
  if (!lock_.try_lock()) return false;
  worker* w = owner();
  if (w == nullptr) return true;  // idle: lock_ is enough
  const std::uint64_t ticket = new_ticket();
  w->interrupt_.store(ticket, std::memory_order_relaxed);
  for (unsigned i = 0; i < answer_spins; ++i) {
    if (w->stepped_aside_.load(std::memory_order_acquire) == ticket) return true;
    pause();
  }
  if (home_ != nullptr) home_->costs().membarriers.add();
  heavy_fence();  // pairs with the light one in worker::enter()
  for (unsigned i = 0; i < leave_spins; ++i) {
    if (w->in_runtime_.load(std::memory_order_acquire) == 0) return true;
    pause();
  }
  w->interrupt_.store(0, std::memory_order_release);
  lock_.unlock();
  return false;
}

void processor::unlock() noexcept {
  if (worker* w = owner()) w->interrupt_.store(0, std::memory_order_release);
  lock_.unlock();
}

void processor::give_to(worker* w) noexcept {
  lock_.lock();
  if (w != nullptr) w->interrupt_.store(0, std::memory_order_relaxed);
  owner_.store(w, std::memory_order_relaxed);
  lock_.unlock();
}

void processor::move_to(worker* successor, const char* why) noexcept {
  worker& loser = *owner();
  if (loser.watched()) [[unlikely]]
    trace_lost(loser, why);
  loser.held = nullptr;
  if (successor != nullptr) successor->interrupt_.store(0, std::memory_order_relaxed);
  owner_.store(successor, std::memory_order_relaxed);
  // release: pairs with the acquire in enter(), so that the loser sees that it holds nothing.
  loser.interrupt_.store(worker::retaken, std::memory_order_release);
  lock_.unlock();
}

bool processor::leave_owner(worker& w, worker* successor) noexcept {
  lock_.lock();
  if (owner() != &w) {
    lock_.unlock();
    return false;
  }
  move_to(successor, "blocking()");
  return true;
}

}  // namespace coir::detail
