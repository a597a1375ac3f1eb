#include "overflow.hpp"

#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <mutex>

#include <sys/mman.h>
#include <unistd.h>

#include "backtrace.hpp"
#include "scheduler.hpp"
#include "worker.hpp"

namespace coir::detail {

namespace {

constexpr std::size_t signal_stack_size = 64 * 1024;

struct sigaction caught_before;

// Everything below runs on the signal stack, after a fault in the middle of anything: no heap, no locks, no stdio but
// snprintf into the stack.

void say(const char* text, int length) noexcept {
  if (length > 0) (void)!::write(STDERR_FILENO, text, static_cast<std::size_t>(length));
}

void report(const fiber& f, std::uintptr_t address) noexcept {
  char text[512];
  const std::size_t size = static_cast<std::size_t>(f.top - f.bottom);
  const char* quote = f.name ? " \"" : "";
  say(text, std::snprintf(text, sizeof text,
                          "coir: stack overflow in fiber %" PRIu64 "%s%s%s, spawned at %s:%u: its stack of %zu bytes "
                          "(options::stack_size) is used up\n",
                          f.id, quote, f.name.text(), f.name ? "\"" : "", f.spawn_file, f.line, size));
  say(text, std::snprintf(text, sizeof text, "coir: the access was to %#" PRIxPTR ", %zu bytes below it; in\n", address,
                          static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(f.bottom) - address)));
  write_backtrace();
}

/// The fiber of this thread, if the address lies in the guard of its stack.
const fiber* overflown(std::uintptr_t address) noexcept {
  const worker* w = current_worker();
  if (w == nullptr || w->current == nullptr) return nullptr;
  const fiber& f = *w->current;
  const auto bottom = reinterpret_cast<std::uintptr_t>(f.bottom);
  return address < bottom && bottom - address <= f.home->guard_size() ? &f : nullptr;
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
  // Back to the faulting instruction, which then ends the process; a signal that somebody sent comes again too.
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(signal, &standard, nullptr);
  if (info->si_code <= 0) ::raise(signal);
}

void on_fault(int signal, siginfo_t* info, void* context) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const fiber* f = info->si_code > 0 ? overflown(address) : nullptr;
  if (f != nullptr) {
    report(*f, address);
    struct sigaction standard {};
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
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGSEGV, &action, &caught_before);
  });
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
