#include "sched/slow_slice.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <string>

#include <sys/syscall.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>

#include "base/backtrace.hpp"
#include "base/clock.hpp"
#include "base/report.hpp"
#include "sched/kernel_view.hpp"
#include "sched/processor.hpp"
#include "sched/worker.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::size_t longest_name_told = 64;
constexpr std::int64_t longest_wait = 20'000'000;  // ns for the thread to answer

std::atomic<bool> wanted{false};  // by the thread that sends the signal; false again: the backtrace is written

// SIGURG is ignored by default. A program that uses it cannot tell its own use from a false alarm anyway.
void answer(int) noexcept {
  if (!wanted.load(std::memory_order_acquire)) return;
  const int error = errno;
  write_backtrace();
  errno = error;
  wanted.store(false, std::memory_order_release);
}

void install() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    prepare_backtrace();
    struct sigaction action{};
    action.sa_handler = answer;
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGURG, &action, nullptr);
  });
}

}  // namespace

slow_slices::slow_slices(std::int64_t limit, std::size_t processors)
    : limit_(limit), seen_(limit != 0 ? processors : 0) {
  if (limit != 0) install();
}

void slow_slices::look(processor& p, worker& owner, std::int64_t time, std::int64_t cpu) noexcept {
  slice& s = seen_[p.index()];
  const std::uint64_t tick = p.tick.load(std::memory_order_relaxed);
  if (s.who != &owner || s.tick != tick) {
    s = {&owner, tick, time, cpu, false};
    return;
  }
  if (s.reported || time - s.since < limit_) return;
  // At least half of the time must be CPU time of its own, unless it blocks its thread: a worker that was only
  // descheduled is not reported.
  if (cpu - s.cpu < limit_ / 2 && state_of(owner) == thread_state::runnable) return;
  s.reported = true;
  report(p, owner, time - s.since, "");
}

// While the processor is locked its owner's fiber cannot end, park or be switched away from: it would wait at its next
// runtime entry.
void slow_slices::report(processor& p, worker& owner, std::int64_t time, const char* more) noexcept {
  const std::uint64_t tick = p.tick.load(std::memory_order_relaxed);
  std::string name;
  name.reserve(2 * longest_name_told);  // nothing is allocated while the processor is locked
  if (!p.try_lock()) return;
  if (p.owner() == &owner && owner.current != nullptr && p.tick.load(std::memory_order_relaxed) == tick) {
    owner.current->name.copy_to(name, longest_name_told);
    const char* const quote = name.empty() ? "" : "\"";
    std::fprintf(stderr, "coir: fiber %llu%s%s%s%s, spawned at %s:%u has kept its processor for %lld ms%s; it is in\n",
                 static_cast<unsigned long long>(owner.current->id), name.empty() ? "" : " ", quote, name.c_str(),
                 quote, owner.current->spawn_file, owner.current->line, static_cast<long long>(time / 1'000'000), more);
    std::fflush(stderr);
    wanted.store(true, std::memory_order_release);
    const auto thread = owner.thread_id.load(std::memory_order_relaxed);
    if (::syscall(SYS_tgkill, ::getpid(), thread, SIGURG) == 0) {
      const std::int64_t until = monotonic_now() + longest_wait;
      while (wanted.load(std::memory_order_acquire) && monotonic_now() < until) ::usleep(50);
    }
    wanted.store(false, std::memory_order_release);
  }
  p.unlock();
}

}  // namespace coir::detail
