#include <coir/detail/coroutine_core.hpp>

#include <coir/detail/abi.hpp>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "base/context_switch.hpp"
#include "base/exception_state.hpp"
#include "base/report.hpp"
#include "base/sanitizer.hpp"
#include "base/valgrind.hpp"
#include "fiber/fiber.hpp"
#include "sched/overflow.hpp"
#include "sched/worker.hpp"
#include "stack/coroutine_stacks.hpp"
#include "stack/stack_pool.hpp"

#if defined(__x86_64__)
// A context is its stack pointer. Above it lie the registers that a function has to preserve, and the address to go on
// at. The function jumps to that address: a `ret` would be predicted to lead back to the other side. It is a naked
// function, because link-time optimization does not see the symbols of an asm statement of the file.
extern "C" [[gnu::naked]] void coir_coroutine_jump(void*) noexcept {
  asm(R"(
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    pushq %rbx
    .cfi_adjust_cfa_offset 8
    pushq %r12
    .cfi_adjust_cfa_offset 8
    pushq %r13
    .cfi_adjust_cfa_offset 8
    pushq %r14
    .cfi_adjust_cfa_offset 8
    pushq %r15
    .cfi_adjust_cfa_offset 8
    movq (%rdi), %rax
    movq %rsp, (%rdi)
    movq %rax, %rsp
    popq %r15
    .cfi_adjust_cfa_offset -8
    popq %r14
    .cfi_adjust_cfa_offset -8
    popq %r13
    .cfi_adjust_cfa_offset -8
    popq %r12
    .cfi_adjust_cfa_offset -8
    popq %rbx
    .cfi_adjust_cfa_offset -8
    popq %rbp
    .cfi_adjust_cfa_offset -8
    popq %rdx
    .cfi_adjust_cfa_offset -8
    .cfi_register %rip, %rdx
    jmp *%rdx
)");
}
#endif

// For frames that a switch leaves, perhaps for good. To AddressSanitizer they must not lie on the fake stack that is
// given up, and must not leave poison on the stack for its next user.
#if defined(COIR_ASAN)
#define UNWATCHED_FRAME [[gnu::no_sanitize_address]]
#else
#define UNWATCHED_FRAME
#endif

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::uint8_t swallow_limit = 100;

/// The exception that unwinds a body. Only main() catches it, and bodies that say catch (...).
struct coroutine_unwinding {};

// The thread's exception state; a pointer of our own, since the ABI's is behind two calls.
constinit thread_local exception_state* exceptions_of_this_thread __attribute__((tls_model("initial-exec"))) = nullptr;

/// This thread is about to run its first body.
[[gnu::noinline]] exception_state* first_use_by_this_thread() noexcept {
  report_overflows_of_this_thread();
  return exceptions_of_this_thread = thread_exception_state();
}

}  // namespace

// ---- memory --------------------------------------------------------------------------------------------------------

coroutine_memory take_coroutine_memory(const coroutine_options& options, std::size_t size, std::size_t alignment) {
  if (options.stack_size < smallest_stack || options.stack_size > largest_stack)
    throw std::invalid_argument("coir: coroutine_options::stack_size is " + std::to_string(options.stack_size) +
                                "; it must be between 16 KiB and 1 GiB");
  // A large block, as of a lambda with an array in it, is not to eat up the stack.
  const std::size_t own = size + alignment;
  const std::size_t bytes = own <= 1024 ? options.stack_size : options.stack_size + own;
  if (bytes > largest_stack) throw std::invalid_argument("coir: the body of a coroutine is too large for its stack");
  pooled_stack* s = take_coroutine_stack(bytes);
  s->asked = options.stack_size;
  s->block = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(s) - size) & ~(std::uintptr_t{alignment} - 1));
  valgrind_take(s->block, size);
  return {s->block, s};
}

void give_back(pooled_stack* stack) noexcept { put_coroutine_stack(stack); }

// ---- switching -----------------------------------------------------------------------------------------------------

// Never inlined, and looks the thread up anew each time: the caller may have moved to another thread since.
[[gnu::noinline]] void swap_exceptions(saved_exceptions& other) noexcept {
  asm volatile("" ::: "memory");
  exception_state* mine = exceptions_of_this_thread;
  if (mine == nullptr) [[unlikely]]
    mine = first_use_by_this_thread();
  const exception_state now = *mine;
  mine->caught = other.caught;
  mine->uncaught = other.uncaught;
  other = {now.caught, now.uncaught};
}

/// The first thing on a new stack.
struct coroutine_entry {
#if defined(__x86_64__)
  static void enter(coroutine_core* self) noexcept { self->main(); }
#else
  static void enter(arrival from) noexcept {
    auto* self = static_cast<coroutine_core*>(from.data);
    self->other_ = from.fctx;
    self->main();
  }
#endif
};

coroutine_core::coroutine_core(const coroutine_memory& where, function run, function destroy) noexcept
    : run_(run), destroy_(destroy), stack_(where.stack) {
  static_assert(std::is_standard_layout_v<coroutine_core>, "other_ is where coir_coroutine_jump() looks");
  const auto top = reinterpret_cast<std::uintptr_t>(where.block) & ~std::uintptr_t{15};
#if defined(__x86_64__)
  // As a call would have left it: the return address (there is none) where a function expects it, below it where to
  // start, and six registers.
  auto** sp = reinterpret_cast<void**>(top) - 8;
  std::memset(sp, 0, 8 * sizeof(void*));
  sp[6] = reinterpret_cast<void*>(&coroutine_entry::enter);
  other_ = sp;
#else
  auto* high = reinterpret_cast<char*>(top);
  other_ = make_context(high, static_cast<std::size_t>(high - stack_->bottom), &coroutine_entry::enter);
#endif
#if defined(COIR_TSAN)
  tsan_ = stack_->tsan;
#endif
#if defined(COIR_ASAN)
  asan_bottom_ = stack_->bottom;
  asan_size_ = top - reinterpret_cast<std::uintptr_t>(stack_->bottom);
#endif
}

// Switches to the other side. Tells the sanitizers, and the fiber, that its stack is now another, on which it may park.
// `last`: this side is not going to be resumed.
UNWATCHED_FRAME void coroutine_core::switch_over([[maybe_unused]] bool last) noexcept {
  swap_exceptions(exceptions_);
#if defined(COIR_TSAN)
  tsan_fiber to = tsan_;
  tsan_ = tsan_current();
  if (fiber* f = current_fiber()) f->tsan = to;
  tsan_switch_in_order(to);
#endif
#if defined(COIR_ASAN)
  const asan_stack to{nullptr, asan_bottom_, asan_size_};
  if (fiber* f = current_fiber()) {
    f->asan.bottom = to.bottom;
    f->asan.size = to.size;
  }
  asan_stack mine;  // keeps this side's fake stack; the arriving side learns the bounds of this one from the sanitizer
  asan_start_switch(last ? nullptr : &mine, to);
#endif
#if defined(__x86_64__)
  coir_coroutine_jump(this);
#else
  other_ = boost::context::detail::jump_fcontext(other_, this).fctx;
#endif
#if defined(COIR_ASAN)
  asan_stack left;
  asan_finish_switch(mine, &left);
  asan_bottom_ = left.bottom;
  asan_size_ = left.size;
#endif
}

UNWATCHED_FRAME void coroutine_core::main() noexcept {
#if defined(COIR_ASAN)
  asan_stack left;
  asan_finish_switch({}, &left);
  asan_bottom_ = left.bottom;
  asan_size_ = left.size;
#endif
  try {
    run_(*this);
  } catch (...) {
    if (state_ != state::unwinding) error_ = std::current_exception();
  }
  state_ = state::finished;
  switch_over(true);
  fatal("broken invariant: a finished coroutine was resumed");
}

// ---- ending --------------------------------------------------------------------------------------------------------

void coroutine_core::discard() noexcept {
  if (state_ == state::suspended) {
    state_ = state::unwinding;
    switch_over(
        false);  // not transfer(), which would be the plain one in this source, compiled without ThreadSanitizer
  }
  if (state_ == state::running || state_ == state::unwinding)
    fatal("a generator or coroutine was destroyed while its body runs");
  pooled_stack* stack = stack_;
  destroy_(*this);
  give_back(stack);
}

void coroutine_core::throw_unwinding() { throw coroutine_unwinding(); }

void coroutine_core::refuse_resume() {
  throw std::logic_error(state_ == state::finished ? "coir: a coroutine that has ended was resumed"
                                                   : "coir: a coroutine was resumed while its body runs");
}

void coroutine_core::refuse_suspend() {
  if (state_ != state::unwinding) throw std::logic_error("coir: a yield was called from outside the running body");
  if (++swallowed_ == swallow_limit)
    fatal(
        "the body of a generator or coroutine that is being destroyed yields again and again: it swallows, in a "
        "catch (...), the exception that is to unwind it");
  throw_unwinding();
}

}  // namespace coir::detail
