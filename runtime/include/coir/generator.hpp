// generator: a sequence that is computed as it is read. A function with a stack of its own yields values, from any call
// depth. It goes on after the yield when the next value is requested.
//
//   void walk(const tree* t, coir::generator<int>::yielder& yield) {
//     if (t == nullptr) return;
//     walk(t->left, yield);
//     yield(t->value);
//     walk(t->right, yield);
//   }
//   coir::generator<int> values([&](auto& yield) { walk(root, yield); });
//   for (int v : values) std::cout << v << '\n';
//
// The body begins when the first value is requested. A generator needs no runtime. It works in any thread and in
// fibers. Its body may block as its consumer may: to everything else, the body is a function that the consumer calls.
//
// Exceptions: an exception that leaves the body leaves the call that requested a value. After that, the sequence is at
// its end.
//
// A generator that is destroyed before its end unwinds its body: the yield that the body is in throws an exception of
// no accessible type, and the destructor returns when the body has ended. If the body catches that exception with catch
// (...) and yields again, the yield throws it again. A body that does so a hundred times ends the process with a
// report. Any other exception that the body throws while it is unwound is dropped. Do not yield in a noexcept function,
// such as a destructor: no exception can leave it, so destroying the generator there ends the process.
//
// Thread safety: one fiber or thread at a time uses a generator, as any object. Different ones may make it, advance it
// and destroy it, if what the body holds allows that (a locked std::mutex does not). To use a generator while its body
// runs throws std::logic_error; to destroy it then ends the process. It may be moved at any time, which invalidates its
// iterators.
// Semantics: Python's generators (PEP 255); the types are those of C++23's std::generator.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <type_traits>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/coroutine_core.hpp>

namespace coir::inline COIR_ABI {

/// T: the type of the values. An object type, which may be move-only; or an lvalue reference, to yield without a copy
/// an object that lives in the body until the body goes on.
template <class T>
class generator {
  static_assert(std::is_object_v<T> || std::is_lvalue_reference_v<T>);
  static constexpr bool yields_references = std::is_lvalue_reference_v<T>;

 public:
  class yielder;
  class iterator;

  using value_type = std::remove_cvref_t<T>;  ///< T without a reference and without const

  /// An empty sequence.
  generator() noexcept = default;

  /// Makes a generator that calls `body` with a yielder&; `body` returns nothing. The body is stored on the generator's
  /// stack, without a heap allocation. Throws std::system_error if there is no memory for a stack,
  /// std::invalid_argument if the stack size in the options is out of range or the body is too large for the stack, and
  /// what moving the body throws.
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, generator> && std::invocable<std::decay_t<F>&, yielder&>)
  explicit generator(F&& body) : generator(coroutine_options{}, std::forward<F>(body)) {}

  /// The same with options, such as the size of the stack.
  template <class F>
    requires std::invocable<std::decay_t<F>&, yielder&>
  generator(const coroutine_options& options, F&& body)
      : body_(detail::make_coroutine<yielder>(options, std::forward<F>(body))) {
    static_assert(std::is_void_v<std::invoke_result_t<std::decay_t<F>&, yielder&>>,
                  "coir: a generator's body returns nothing (see coroutine for one with a result)");
    body_->owner_ = this;
  }

  /// Takes over the rest of the sequence. `other` is an empty sequence afterwards.
  generator(generator&& other) noexcept { take(other); }
  /// The same. The body that this generator had before is unwound, as by the destructor.
  generator& operator=(generator&& other) noexcept {
    if (this != &other) {
      generator taken(std::move(other));  // first, since `other` may be in the body that ends here
      discard();
      take(taken);
    }
    return *this;
  }
  ~generator() { discard(); }

  /// Runs the body until it yields or ends. Returns the next value, or nothing (a null pointer if T is a reference) at
  /// the end and each time after that. Throws what the body throws. Blocks if the body blocks.
  auto next()
    requires(yields_references || std::move_constructible<value_type>)
  {
    if constexpr (yields_references) {
      return advance();
    } else {
      auto* value = advance();
      return value != nullptr ? std::optional<value_type>(std::move(*value)) : std::nullopt;
    }
  }

  /// Whether the end has been reached. False does not promise that there is another value.
  bool done() const noexcept { return body_ == nullptr; }

  /// A single pass. begin() and ++ request the next value, and throw as next(). `*` gives the value away, as T&&. A
  /// second loop goes on where the first one was left.
  iterator begin() { return iterator(*this); }
  /// The end of the sequence.
  std::default_sentinel_t end() const noexcept { return {}; }

 private:
  using pointer = std::remove_reference_t<T>*;

  /// Returns null at the end. *this may be moved while the body runs.
  pointer advance() {
    yielder* body = body_;
    if (body == nullptr) return nullptr;
    if (body->resume()) [[likely]]
      return body->value_;
    end(*body);
    return nullptr;
  }

  static void end(yielder& body) {
    body.owner_->body_ = nullptr;
    const std::exception_ptr error = body.error();
    body.discard();
    if (error != nullptr) std::rethrow_exception(error);
  }

  void discard() noexcept {
    if (yielder* body = std::exchange(body_, nullptr)) body->discard();
  }

  void take(generator& other) noexcept {
    body_ = std::exchange(other.body_, nullptr);
    if (body_ != nullptr) body_->owner_ = this;
  }

  yielder* body_ = nullptr;
};

/// The argument of the body. Only the body, and functions that it calls, may use it.
template <class T>
class generator<T>::yielder : private detail::coroutine_core {
 public:
  /// Hands a value to the consumer. Returns when the next value is requested.
  void operator()(T&& value) {
    value_ = std::addressof(value);
    suspend();
  }

  /// The same, but the consumer gets a copy.
  void operator()(const T& value)
    requires(!yields_references && std::copy_constructible<T>)
  {
    T copy(value);
    (*this)(std::move(copy));
  }

  /// Yields all elements of a range, for example of another generator, one after another.
  template <std::ranges::input_range R>
    requires std::constructible_from<T, std::ranges::range_reference_t<R>>
  void from(R&& range) {
    for (auto&& each : range) (*this)(static_cast<decltype(each)>(each));
  }

 private:
  friend generator;
  template <class, class>
  friend struct detail::coroutine_block;

  using coroutine_core::coroutine_core;
  static yielder& of(coroutine_core& core) noexcept { return static_cast<yielder&>(core); }

  template <class F>
  void call(F& body) {
    std::invoke(body, *this);
  }

  pointer value_ = nullptr;  // while it is suspended: the value that it has yielded
  generator* owner_ = nullptr;
};

/// An input iterator over what the body yields.
template <class T>
class generator<T>::iterator {
 public:
  /// As for any input iterator.
  using value_type = generator::value_type;
  /// As for any input iterator.
  using difference_type = std::ptrdiff_t;
  /// As for any input iterator.
  using iterator_concept = std::input_iterator_tag;

  iterator() noexcept = default;

  /// The value. An rvalue, so that it can be moved from.
  T&& operator*() const noexcept { return static_cast<T&&>(*value_); }
  /// Runs the body to its next value. Throws what leaves the body.
  iterator& operator++() {
    value_ = from_->advance();
    return *this;
  }
  /// The same; returns nothing.
  void operator++(int) { ++*this; }

  friend bool operator==(const iterator& i, std::default_sentinel_t) noexcept { return i.value_ == nullptr; }

 private:
  friend generator;
  explicit iterator(generator& from) : from_(&from), value_(from.advance()) {}

  generator* from_ = nullptr;
  pointer value_ = nullptr;
};

}  // namespace coir
