#include "sched/overflow.hpp"

#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <mutex>

#include <sys/mman.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>

#include "base/backtrace.hpp"
#include "base/raw_calls.hpp"
#include "sched/scheduler.hpp"
#include "sched/worker.hpp"
#include "stack/coroutine_stacks.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::size_t signal_stack_size = 64 * 1024;

struct sigaction caught_before;

// Everything below runs on the signal stack, after a fault in the middle of anything: no heap, no locks, no stdio but
// snprintf into the stack.

void say(const char* text, int length) noexcept {
  if (length > 0) (void)!raw_write(STDERR_FILENO, text, static_cast<std::size_t>(length));
}

void say_fiber(const fiber& f) noexcept {
  char text[512];
  const char* quote = f.name ? " \"" : "";
  say(text, std::snprintf(text, sizeof text, "fiber %" PRIu64 "%s%s%s, spawned at %s:%u", f.id, quote, f.name.text(),
                          f.name ? "\"" : "", f.spawn_file, f.line));
}

void say_rest(const char* bottom, const char* top, std::size_t size, const char* option,
              std::uintptr_t address) noexcept {
  char text[512];
  say(text, std::snprintf(text, sizeof text,
                          ": its stack of %zu bytes (%s; %zu are usable) is used up\n"
                          "coir: the access was to %#" PRIxPTR ", %zu bytes below it; in\n",
                          size, option, static_cast<std::size_t>(top - bottom), address,
                          static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(bottom) - address)));
  write_backtrace();
}

void report(const fiber& f, std::uintptr_t address) noexcept {
  say("coir: stack overflow in ", 24);
  say_fiber(f);
  say_rest(f.bottom, reinterpret_cast<const char*>(&f), f.home->stacks().stack_size(f),
           f.stack_class == 0 ? "options::stack_size" : "spawn_options::stack_size", address);
}

void report(const pooled_stack& s, const fiber* runs_it, std::uintptr_t address) noexcept {
  char text[128];
  say(text, std::snprintf(text, sizeof text, "coir: stack overflow in the body of a generator or coroutine, run by "));
  if (runs_it != nullptr)
    say_fiber(*runs_it);
  else
    say(text, std::snprintf(text, sizeof text, "thread %d", static_cast<int>(::gettid())));
  say_rest(s.bottom, static_cast<const char*>(s.block), s.asked, "coroutine_options::stack_size", address);
}

/// Reports it and returns true if the address lies in the guard of this thread's fiber's stack, or of a body's.
bool report_overflow(std::uintptr_t address) noexcept {
  const fiber* f = current_fiber();
  if (f != nullptr) {
    const auto bottom = reinterpret_cast<std::uintptr_t>(f->bottom);
    if (address < bottom && bottom - address <= f->home->stacks().guard_size(*f)) {
      report(*f, address);
      return true;
    }
  }
  const pooled_stack* s = coroutine_stack_above_guard(address);
  if (s != nullptr) report(*s, f, address);
  return s != nullptr;
}

void pass_on(int signal, siginfo_t* info, void* context) noexcept {
  if ((caught_before.sa_flags & SA_SIGINFO) != 0) {
    caught_before.sa_sigaction(signal, info, context);
    return;
  }
  if (caught_before.sa_handler != SIG_DFL && caught_before.sa_handler != SIG_IGN) {
    caught_before.sa_handler(signal);
    return;
  }
  // Returns to the faulting instruction, which then ends the process. A signal that somebody sent is raised again.
  struct sigaction standard{};
  standard.sa_handler = SIG_DFL;
  ::sigaction(signal, &standard, nullptr);
  if (info->si_code <= 0) ::raise(signal);
}

void on_fault(int signal, siginfo_t* info, void* context) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (info->si_code > 0 && report_overflow(address)) {
    struct sigaction standard{};
    standard.sa_handler = SIG_DFL;
    ::sigaction(signal, &standard, nullptr);
    return;
  }
  pass_on(signal, info, context);
}

}  // namespace

void catch_overflows() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    prepare_backtrace();
    struct sigaction action{};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGSEGV, &action, &caught_before);
  });
}

[[gnu::noinline]] void report_overflows_of_this_thread() noexcept {
  if (current_worker() != nullptr) return;  // work() has done this
  catch_overflows();
  thread_local signal_stack own;
}

signal_stack::signal_stack() noexcept {
  stack_t present{};
  if (::sigaltstack(nullptr, &present) != 0 || (present.ss_flags & SS_DISABLE) == 0) return;
  void* p =
      ::mmap(nullptr, signal_stack_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return;  // then an overflow ends the process without a report
  stack_t own{};
  own.ss_sp = p;
  own.ss_size = signal_stack_size;
  if (::sigaltstack(&own, nullptr) != 0) {
    ::munmap(p, signal_stack_size);
    return;
  }
  memory_ = p;
}

signal_stack::~signal_stack() {
  if (memory_ == nullptr) return;
  stack_t off{};
  off.ss_flags = SS_DISABLE;
  ::sigaltstack(&off, nullptr);
  ::munmap(memory_, signal_stack_size);
}

}  // namespace coir::detail
