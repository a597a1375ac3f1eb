// The untyped half of generator and coroutine: a body on a stack of its own, and the switch between it and its
// consumer. Not for users: the spellings here may change.
//
//   state       moved there by
//   fresh       the maker: the body has not begun
//   suspended   the body: suspend()
//   running     its consumer: resume()
//   unwinding   its consumer: discard(); each suspend() throws from then on
//   finished    the body, when it has returned or thrown
//
// Invariants:
//  1. Exactly one side is suspended; other_, exceptions_ and the sanitizers' state of a stack are that side's. A
//     switch exchanges them for those of the side that it leaves, whichever stack that is on: so a body may be resumed
//     by one fiber or thread and then by another, park the fiber that it runs in, and even yield to its consumer from
//     the body of another coroutine that it resumes.
//  2. To all other code the body is a part of the fiber or thread that resumes it: a function that it calls. The
//     registers that hold the rounding mode, thread-local storage and cancellation are its consumer's.
//  3. It is used by one thread of execution at a time; nothing here is atomic. For ThreadSanitizer a switch orders
//     the actions before it and after it, as a call does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <type_traits>
#include <utility>

#include <coir/detail/abi.hpp>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COIR_DETAIL_PLAIN_SWITCH 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COIR_DETAIL_PLAIN_SWITCH 0
#endif
#endif
#if !defined(COIR_DETAIL_PLAIN_SWITCH) && defined(__x86_64__)
#define COIR_DETAIL_PLAIN_SWITCH 1
#endif

/// Exchanges the running context with the one suspended in `other`, its argument's first member. A call would leave the
/// CPU's return predictor with an entry too many, if it were returned from; it is left by an indirect jump instead.
extern "C" void coir_coroutine_jump(void* other) noexcept;

namespace coir::inline COIR_ABI {

/// How a generator or coroutine is made.
struct coroutine_options {
  /// Size of the body's stack, in bytes: 16 KiB to 1 GiB, rounded up to a power of two. This is address space; only
  /// what is touched uses memory. A guard of 64 KiB or a page more comes in addition. A body that needs more ends in
  /// the guard: the process is ended. A single frame larger than the guard may step over it, unless its function was
  /// compiled with -fstack-clash-protection.
  std::size_t stack_size = 256 * 1024;
};

namespace detail {

struct pooled_stack;

/// A stack from the process's pool, with room for an object at its top.
struct coroutine_memory {
  void* block;
  pooled_stack* stack;
};

/// Throws std::invalid_argument (no such stack size), std::system_error (no memory).
coroutine_memory take_coroutine_memory(const coroutine_options& options, std::size_t size, std::size_t alignment);
void give_back(pooled_stack* stack) noexcept;

/// libstdc++'s and libc++abi's __cxa_eh_globals.
struct saved_exceptions {
  void* caught = nullptr;
  unsigned int uncaught = 0;
};

/// Exchanges the running thread's C++ exception state with a suspended side's.
void swap_exceptions(saved_exceptions& other) noexcept;

class coroutine_core {
 public:
  using function = void (*)(coroutine_core&);

  /// `run` runs the body and may throw; `destroy` destroys the block that this is a part of.
  coroutine_core(const coroutine_memory& where, function run, function destroy) noexcept;
  coroutine_core(const coroutine_core&) = delete;
  coroutine_core& operator=(const coroutine_core&) = delete;

  // ---- the consumer's side

  /// Runs the body until it yields (true), or has ended (false). Not on one that has ended.
  bool resume() {
    if (state_ >= state::running) [[unlikely]]
      refuse_resume();
    state_ = state::running;
    transfer();
    return state_ == state::suspended;
  }

  bool is_fresh() const noexcept { return state_ == state::fresh; }
  bool is_suspended() const noexcept { return state_ == state::suspended; }

  /// What the body threw.
  std::exception_ptr error() const noexcept { return error_; }

  /// Unwinds the body if it is suspended, destroys the block, gives the stack back.
  void discard() noexcept;

  // ---- the body's side

  /// Returns when the body is resumed. Throws when it is being discarded.
  void suspend() {
    if (state_ != state::running) [[unlikely]]
      refuse_suspend();
    state_ = state::suspended;
    transfer();
    if (state_ != state::running) [[unlikely]]
      throw_unwinding();
  }

 private:
  enum class state : std::uint8_t { fresh, suspended, running, unwinding, finished };

  [[gnu::always_inline]] inline void transfer() noexcept {
#if COIR_DETAIL_PLAIN_SWITCH
    swap_exceptions(exceptions_);
    coir_coroutine_jump(this);
#else
    switch_over(false);
#endif
  }

  void switch_over(bool last) noexcept;
  [[noreturn]] void main() noexcept;
  [[noreturn]] void throw_unwinding();
  [[noreturn]] void refuse_resume();
  [[noreturn]] void refuse_suspend();
  friend struct coroutine_entry;

  void* other_ = nullptr;  // the suspended side's context; first, for coir_coroutine_jump()
  saved_exceptions exceptions_;
  state state_ = state::fresh;
  std::uint8_t swallowed_ = 0;  // how often the body has yielded while it was unwound
  function run_;
  function destroy_;
  pooled_stack* stack_;
  std::exception_ptr error_;
  // The suspended side's, for the sanitizers; not used in a plain build.
  void* tsan_ = nullptr;
  const void* asan_bottom_ = nullptr;
  std::size_t asan_size_ = 0;
};

/// The top of a body's stack: a coroutine_core, which is hidden in the Yielder that the body gets, and the body.
template <class Yielder, class F>
struct coroutine_block final : Yielder {
  template <class G>
  coroutine_block(const coroutine_memory& where, G&& g)
      : Yielder(where, &coroutine_block::run, &coroutine_block::destroy), body(std::forward<G>(g)) {}

  static coroutine_block& of(coroutine_core& c) noexcept { return static_cast<coroutine_block&>(Yielder::of(c)); }
  static void run(coroutine_core& c) { of(c).call(of(c).body); }
  static void destroy(coroutine_core& c) { of(c).~coroutine_block(); }

  F body;
};

template <class Yielder, class F>
Yielder* make_coroutine(const coroutine_options& options, F&& f) {
  using block = coroutine_block<Yielder, std::decay_t<F>>;
  const coroutine_memory memory = take_coroutine_memory(options, sizeof(block), alignof(block));
  try {
    return ::new (memory.block) block(memory, std::forward<F>(f));
  } catch (...) {
    give_back(memory.stack);
    throw;
  }
}

}  // namespace detail
}  // namespace coir

#undef COIR_DETAIL_PLAIN_SWITCH
