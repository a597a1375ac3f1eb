// A function with a stack of its own that can be left in the middle and gone on with: it hands out values, takes values
// in, and has a result.
//
//   coir::coroutine<std::string, int, bool> guess([](auto& self) {
//     int number = self.yield("a number, please");
//     while (number != 7) number = self.yield(number < 7 ? "more" : "less");
//     return true;
//   });
//   std::optional<std::string> says = guess.next();  // runs to the first yield
//   while (says) says = guess.send(ask(*says));      // nothing: it has ended
//   bool won = guess.result();
//
// Out, In and Result may each be void, an object type (move-only too) or an lvalue reference. Needs no runtime: works
// in any thread, and in fibers, where the body may block as its consumer may: to everything else it is a function that
// the consumer calls.
//
// Exceptions: what the body throws comes out of the next() or send() in which it ended, and again out of result().
// Misuse is a std::logic_error: send() to one that has not started or has ended; next() on one that waits for a value;
// result() of one that has not ended; resuming it while its body runs; a yield from outside the running body.
//
// Destroying one that has not ended unwinds its body, as with a generator (generator.hpp says what that means): the
// yield that it is in throws an exception of no accessible type, and the destructor returns when the body has ended.
//
// Thread safety: used by one fiber or thread at a time, not necessarily the same. It may be moved at any time.
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

/// The argument of the body, for each type of result: coroutine<Out, In, Result>::handle. Only the body, and functions
/// that it calls, may use it.
template <class Out, class In = void>
class coroutine_self : private detail::coroutine_core {
  static_assert(!std::is_rvalue_reference_v<Out> && !std::is_rvalue_reference_v<In>);
  static constexpr bool yields_objects = std::is_object_v<Out>;
  using out = std::conditional_t<std::is_void_v<Out>, std::monostate, Out>;

 public:
  /// Hands a value to the consumer; returns, when it resumes the body, what it has sent (nothing if In is void).
  In yield(out&& value) requires(!std::is_void_v<Out>) {
    out_ = std::addressof(value);
    suspend();
    return take();
  }

  /// The consumer gets a copy.
  In yield(const out& value) requires(yields_objects&& std::copy_constructible<Out>) {
    out copy(value);
    return yield(std::move(copy));
  }

  In yield() requires std::is_void_v<Out> {
    suspend();
    return take();
  }

  /// Runs another coroutine to its end in place of this body: what it yields goes to this one's consumer, what that
  /// sends goes to it. Returns its result, or throws what it throws; std::logic_error if it was moved from meanwhile.
  /// `inner` must not wait for a value already. Costs a switch there and back for each coroutine in such a chain.
  template <class Result>
  Result yield_from(coroutine<Out, In, Result>& inner) {
    for (coroutine_self* at = inner.start(); at != nullptr; at = inner.step(in_)) {
      out_ = at->out_;
      suspend();
    }
    return std::move(inner).result();
  }
  template <class Result>
  Result yield_from(coroutine<Out, In, Result>&& inner) {
    return yield_from(inner);
  }

 protected:
  using coroutine_core::coroutine_core;
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

  // Where the value handed over lies: on the other side, which is suspended.
  std::remove_reference_t<Out>* out_ = nullptr;
  std::remove_reference_t<In>* in_ = nullptr;
};

template <class Out, class In, class Result>
class coroutine {
  static_assert(!std::is_rvalue_reference_v<Result>);
  using sent = std::conditional_t<std::is_void_v<In>, std::monostate, In>;
  using kept = std::conditional_t<
      std::is_void_v<Result>, std::monostate,
      std::conditional_t<std::is_reference_v<Result>, std::remove_reference_t<Result>*, std::remove_cv_t<Result>>>;

 public:
  using handle = coroutine_self<Out, In>;

  /// What next() and send() return: std::optional<Out>, or Out's pointer if it is a reference: null once the body has
  /// ended. If Out is void a bool: whether it has yielded.
  using yielded = std::conditional_t<std::is_void_v<Out>, bool,
                                     std::conditional_t<std::is_reference_v<Out>, std::remove_reference_t<Out>*,
                                                        std::optional<std::remove_cv_t<Out>>>>;

  /// One that has ended and has no result.
  coroutine() noexcept = default;

  /// `body` is called with a handle& and returns the Result. It is stored on its stack, without a heap allocation.
  /// Throws std::system_error when there is no memory for a stack, and what moving the body throws.
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, coroutine> &&
           std::invocable<std::decay_t<F>&, handle&>) explicit coroutine(F&& body)
      : coroutine(coroutine_options{}, std::forward<F>(body)) {}

  template <class F>
  requires std::invocable < std::decay_t<F>
  &, handle& > coroutine(const coroutine_options& options, F&& body)
      : body_(detail::make_coroutine<owned_body>(options, std::forward<F>(body))) {
    static_assert(std::is_convertible_v<std::invoke_result_t<std::decay_t<F>&, handle&>, Result>,
                  "coir: the body does not return the coroutine's Result");
    body_->owner_ = this;
  }

  coroutine(coroutine&& other) noexcept(std::is_nothrow_move_constructible_v<kept>)
      : body_(std::exchange(other.body_, nullptr)),
        error_(std::exchange(other.error_, nullptr)),
        result_(std::move(other.result_)) {
    if (body_ != nullptr) body_->owner_ = this;
    other.result_.reset();
  }
  coroutine& operator=(coroutine&& other) noexcept(std::is_nothrow_move_constructible_v<kept>) {
    if (this != &other) {
      coroutine taken(std::move(other));  // first: `other` may be in the body that ends here
      discard();
      body_ = std::exchange(taken.body_, nullptr);
      if (body_ != nullptr) body_->owner_ = this;
      error_ = std::exchange(taken.error_, nullptr);
      result_.reset();
      if (taken.result_) result_.emplace(std::move(*taken.result_));  // optional's would ask for an assignable Result
    }
    return *this;
  }
  ~coroutine() { discard(); }

  /// Starts the body, or goes on with it if In is void, until it yields or ends. Nothing if it has ended, now or
  /// before.
  yielded next() { return hand_out(start()); }

  /// Goes on with the body, whose yield returns the value, until it yields again or ends.
  yielded send(sent value) requires(!std::is_void_v<In>) {
    if (body_ == nullptr) throw std::logic_error("coir: send() to a coroutine that has ended");
    if (body_->is_fresh())
      throw std::logic_error("coir: send() to a coroutine that has not started: call next() first");
    return hand_out(step(std::addressof(value)));
  }

  /// Whether the body has ended.
  bool done() const noexcept { return body_ == nullptr; }

  /// What the body returned; throws what it threw. May be asked for again; of an rvalue it is moved out.
  std::add_lvalue_reference_t<Result> result() & {
    require_result();
    if constexpr (std::is_reference_v<Result>)
      return **result_;
    else if constexpr (!std::is_void_v<Result>)
      return *result_;
  }
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
        owner_->result_.emplace(std::move(result));  // the owner of now: it may have been moved meanwhile
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

  /// Null: the body has ended, now or before. While it runs, *this may be moved.
  handle* step(std::remove_reference_t<In>* value) {
    owned_body* body = body_;
    if (body == nullptr) [[unlikely]]
      return nullptr;  // a consumer of its own has taken the rest of what another one delegates to
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
