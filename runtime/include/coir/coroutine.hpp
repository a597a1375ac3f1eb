// coroutine: a function with a stack of its own that can be suspended in the middle and resumed later. It yields
// values, receives values, and returns a result.
//
//   coir::coroutine<std::string, int, bool> guess([](auto& self) {
//     int number = self.yield("a number, please");
//     while (number != 7) number = self.yield(number < 7 ? "more" : "less");
//     return true;
//   });
//   std::optional<std::string> says = guess.next();  // runs to the first yield
//   while (says) says = guess.send(ask(*says));      // nullopt: it has ended
//   bool won = guess.result();
//
// Out, In and Result may each be void, an object type (move-only too) or an lvalue reference. A coroutine needs no
// runtime. It works in any thread and in fibers. Its body may block as its consumer may: to everything else, the body
// is a function that the consumer calls.
//
// Exceptions: an exception that leaves the body leaves the next() or send() in which the body ended. result() throws it
// again. Misuse throws std::logic_error:
//   - send() to a coroutine that has not started or has ended
//   - next() on a coroutine that waits for a value
//   - result() of a coroutine that has not ended
//   - resuming a coroutine while its body runs
//   - a yield from outside the running body
//
// Destroying a coroutine that has not ended unwinds its body, as for a generator (generator.hpp has the details). The
// yield that the body is in throws an exception of no accessible type. The destructor returns when the body has ended.
// Destroying a coroutine while its body runs ends the process.
//
// Thread safety: one fiber or thread at a time uses a coroutine. It need not always be the same one. A coroutine may be
// moved at any time, even while its body runs.
// Semantics: Python's PEP 342 (next, send) and PEP 380 (yield_from).
#pragma once

#include <concepts>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <variant>

#include <coir/detail/abi.hpp>
#include <coir/detail/coroutine_core.hpp>

namespace coir::inline COIR_ABI {

template <class Out, class In = void, class Result = void>
class coroutine;

/// The argument of the body: coroutine<Out, In, Result>::handle, the same type for every Result. Only the body, and
/// functions that it calls, may use it.
template <class Out, class In = void>
class coroutine_self : private detail::coroutine_core {
  static_assert(!std::is_rvalue_reference_v<Out> && !std::is_rvalue_reference_v<In>);
  static constexpr bool yields_objects = std::is_object_v<Out>;
  using out = std::conditional_t<std::is_void_v<Out>, std::monostate, Out>;

 public:
  /// Hands a value to the consumer and suspends the body. When the consumer resumes the body, returns the value that
  /// the consumer has sent (nothing if In is void). Throws std::logic_error from outside the running body.
  In yield(out&& value)
    requires(!std::is_void_v<Out>)
  {
    out_ = std::addressof(value);
    suspend();
    return take();
  }

  /// The same, but the consumer gets a copy.
  In yield(const out& value)
    requires(yields_objects && std::copy_constructible<Out>)
  {
    out copy(value);
    return yield(std::move(copy));
  }

  /// The same if Out is void: there is no value to hand over.
  In yield()
    requires std::is_void_v<Out>
  {
    suspend();
    return take();
  }

  /// Runs another coroutine to its end in place of this body. The values that `inner` yields go to this coroutine's
  /// consumer. The values that the consumer sends go to `inner`. Returns the result of `inner`, or throws what it
  /// throws. Throws std::logic_error if `inner` already waits for a value, or is moved from meanwhile. Costs a switch
  /// there and back for each coroutine in such a chain.
  template <class Result>
  Result yield_from(coroutine<Out, In, Result>& inner) {
    for (coroutine_self* at = inner.start(); at != nullptr; at = inner.step(in_)) {
      out_ = at->out_;
      suspend();
    }
    return std::move(inner).result();
  }
  /// The same for a temporary.
  template <class Result>
  Result yield_from(coroutine<Out, In, Result>&& inner) {
    return yield_from(inner);
  }

 protected:
  using coroutine_core::coroutine_core;
  /// The coroutine_self that `core` is a part of.
  static coroutine_self& of(detail::coroutine_core& core) noexcept { return static_cast<coroutine_self&>(core); }

 private:
  template <class, class, class>
  friend class coroutine;

  In take() {
    if constexpr (std::is_object_v<In>)
      return std::move(*in_);
    else if constexpr (std::is_reference_v<In>)
      return *in_;
  }

  // The value that is handed over. It lies on the other side, which is suspended.
  std::remove_reference_t<Out>* out_ = nullptr;
  std::remove_reference_t<In>* in_ = nullptr;
};

/// A body with a stack of its own that exchanges values with its caller: each resume passes an In and gets an Out.
template <class Out, class In, class Result>
class coroutine {
  static_assert(!std::is_rvalue_reference_v<Result>);
  using sent = std::conditional_t<std::is_void_v<In>, std::monostate, In>;
  using kept = std::conditional_t<
      std::is_void_v<Result>, std::monostate,
      std::conditional_t<std::is_reference_v<Result>, std::remove_reference_t<Result>*, std::remove_cv_t<Result>>>;

 public:
  /// The argument of the body.
  using handle = coroutine_self<Out, In>;

  /// The return type of next() and send(): std::optional<Out>, a pointer if Out is a reference, a bool if Out is void.
  /// It is empty, null or false once the body has ended.
  using yielded = std::conditional_t<std::is_void_v<Out>, bool,
                                     std::conditional_t<std::is_reference_v<Out>, std::remove_reference_t<Out>*,
                                                        std::optional<std::remove_cv_t<Out>>>>;

  /// A coroutine that has ended and has no result.
  coroutine() noexcept = default;

  /// Makes a coroutine that calls `body` with a handle&; `body` returns the Result. The first next() starts the body.
  /// The body is stored on the coroutine's stack, without a heap allocation. Throws std::system_error if there is no
  /// memory for a stack, std::invalid_argument if the stack size in the options is out of range or the body is too
  /// large for the stack, and what moving the body throws.
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, coroutine> && std::invocable<std::decay_t<F>&, handle&>)
  explicit coroutine(F&& body) : coroutine(coroutine_options{}, std::forward<F>(body)) {}

  /// The same with options.
  template <class F>
    requires std::invocable<std::decay_t<F>&, handle&>
  coroutine(const coroutine_options& options, F&& body)
      : body_(detail::make_coroutine<owned_body>(options, std::forward<F>(body))) {
    static_assert(std::is_convertible_v<std::invoke_result_t<std::decay_t<F>&, handle&>, Result>,
                  "coir: the body does not return the coroutine's Result");
    body_->owner_ = this;
  }

  /// Takes over the body; the other is empty afterwards.
  coroutine(coroutine&& other) noexcept(std::is_nothrow_move_constructible_v<kept>)
      : body_(std::exchange(other.body_, nullptr)),
        error_(std::exchange(other.error_, nullptr)),
        result_(std::move(other.result_)) {
    if (body_ != nullptr) body_->owner_ = this;
    other.result_.reset();
  }
  /// The same, after it has ended its own body as the destructor does.
  coroutine& operator=(coroutine&& other) noexcept(std::is_nothrow_move_constructible_v<kept>) {
    if (this != &other) {
      coroutine taken(std::move(other));  // first, since `other` may be in the body that ends here
      discard();
      body_ = std::exchange(taken.body_, nullptr);
      if (body_ != nullptr) body_->owner_ = this;
      error_ = std::exchange(taken.error_, nullptr);
      result_.reset();
      if (taken.result_) result_.emplace(std::move(*taken.result_));  // optional's = needs an assignable Result
    }
    return *this;
  }
  ~coroutine() { discard(); }

  /// Starts the body, or resumes it if In is void, and runs it until it yields or ends. Returns the value that it
  /// yields, or nothing if it has ended, now or before. Throws what the body throws, and std::logic_error if the body
  /// waits for a value or is running. Blocks if the body blocks.
  yielded next() { return hand_out(start()); }

  /// Resumes the body, whose yield returns the value, and runs it until it yields again or ends. Throws
  /// std::logic_error if the body has not started, has ended or is running, and what the body throws. Blocks if the
  /// body blocks.
  yielded send(sent value)
    requires(!std::is_void_v<In>)
  {
    if (body_ == nullptr) throw std::logic_error("coir: send() to a coroutine that has ended");
    if (body_->is_fresh())
      throw std::logic_error("coir: send() to a coroutine that has not started: call next() first");
    return hand_out(step(std::addressof(value)));
  }

  /// Whether the body has ended.
  bool done() const noexcept { return body_ == nullptr; }

  /// Returns what the body returned, or throws what it threw. May be called again. On an rvalue, the result is moved
  /// out. Throws std::logic_error if the body has not ended.
  std::add_lvalue_reference_t<Result> result() & {
    require_result();
    if constexpr (std::is_reference_v<Result>)
      return **result_;
    else if constexpr (!std::is_void_v<Result>)
      return *result_;
  }
  /// The same of an rvalue: the result is moved out.
  Result result() && {
    require_result();
    if constexpr (std::is_reference_v<Result>)
      return **result_;
    else if constexpr (!std::is_void_v<Result>)
      return std::move(*result_);
  }

 private:
  template <class, class>
  friend class coroutine_self;

  struct owned_body : handle {
    using handle::handle;

    template <class F>
    void call(F& body) {
      if constexpr (std::is_void_v<Result>) {
        std::invoke(body, static_cast<handle&>(*this));
        owner_->result_.emplace();
      } else if constexpr (std::is_reference_v<Result>) {
        Result result = std::invoke(body, static_cast<handle&>(*this));
        owner_->result_.emplace(std::addressof(result));
      } else {
        kept result = std::invoke(body, static_cast<handle&>(*this));
        owner_->result_.emplace(std::move(result));  // its owner now: it may have been moved meanwhile
      }
    }

    coroutine* owner_ = nullptr;
  };

  handle* start() {
    if (body_ == nullptr) return nullptr;
    if constexpr (!std::is_void_v<In>)
      if (body_->is_suspended())
        throw std::logic_error("coir: next() on a coroutine that waits for a value: send() one");
    return step(nullptr);
  }

  /// Returns null if the body has ended, now or before. *this may be moved while the body runs.
  handle* step(std::remove_reference_t<In>* value) {
    owned_body* body = body_;
    if (body == nullptr) [[unlikely]]
      return nullptr;  // another consumer has run yield_from()'s inner coroutine to its end
    body->in_ = value;
    if (body->resume()) [[likely]]
      return body;
    end(*body);
    return nullptr;
  }

  static void end(owned_body& body) {
    coroutine& owner = *body.owner_;
    owner.body_ = nullptr;
    const std::exception_ptr error = owner.error_ = body.error();
    body.discard();
    if (error != nullptr) std::rethrow_exception(error);
  }

  static yielded hand_out(handle* at) {
    if constexpr (std::is_void_v<Out>)
      return at != nullptr;
    else if constexpr (std::is_reference_v<Out>)
      return at != nullptr ? at->out_ : nullptr;
    else
      return at != nullptr ? yielded(std::move(*at->out_)) : std::nullopt;
  }

  void require_result() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
    if (!result_) throw std::logic_error("coir: result() of a coroutine that has not ended");
  }

  void discard() noexcept {
    if (owned_body* body = std::exchange(body_, nullptr)) body->discard();
  }

  owned_body* body_ = nullptr;
  std::exception_ptr error_;
  std::optional<kept> result_;
};

}  // namespace coir
