// An asynchronous operation of Boost.Asio that a fiber waits for; use_fiber is made of it. Not for users.
//
// The *operation* is shared by the fiber and the *handler* that Asio has. The handler leaves its arguments in it and
// wakes the fiber. A handler that is destroyed without a call (its io_context is destroyed) wakes it too. The handler's
// intermediate steps go through *step_executor*, which the handler is associated with. It is the executor that they
// would have run on anyway, but each step runs under the operation's lock.
//
// Invariants:
//  1. The fiber goes on only when the handler has been called or destroyed, because the buffers are on the fiber's
//     stack. If it is cancelled, it emits the cancellation signal and waits on. The one exception is the unwinding of a
//     deadlock: then there is no thread that could run the handler.
//  2. turn_ is held by each step and by the emission, because a cancellation signal is not safe for threads: steps put
//     their handlers into its slot, and what such a handler refers to may be gone when the last step is over (done_).
//     The initiating function runs before the fiber waits, so before the emission.
//  3. The handler sets done_ once, under lock_. After that it unparks the waiter, if it has claimed one.
//  4. turn_ comes before lock_ in the lock order. It is recursive: an emission may run the last step.
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <boost/asio/error.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/require.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>
#include <boost/version.hpp>

#if BOOST_VERSION >= 107700
#include <boost/asio/cancellation_signal.hpp>
#endif

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>
#include <coir/detail/queued_wait.hpp>
#include <coir/detail/spin_lock.hpp>
#include <coir/recursive_mutex.hpp>

namespace coir::inline COIR_ABI::detail {

/// Tells Asio to end an operation that is under way. Before Boost 1.77 that is not possible.
class operation_canceller {
 public:
#if BOOST_VERSION >= 107700
  using slot_type = boost::asio::cancellation_slot;
  slot_type slot() noexcept { return signal_.slot(); }
  void emit() { signal_.emit(boost::asio::cancellation_type::all); }

 private:
  boost::asio::cancellation_signal signal_;
#else
  void emit() noexcept {}
#endif
};

/// The wait, whatever the operation's results.
class asio_operation {
 public:
  asio_operation() = default;
  asio_operation(const asio_operation&) = delete;
  asio_operation& operator=(const asio_operation&) = delete;

  operation_canceller& canceller() noexcept { return canceller_; }

  template <class F>
  void step(F& f) {
    const std::lock_guard turn(turn_);
    f();
  }

 protected:
  ~asio_operation() = default;

  /// By the handler, once, when the results are there.
  void complete() noexcept {
    lock_.lock();
    done_ = true;
    const wait_node* const sleeper = waiters_.claim_front();
    waiter* const who = sleeper != nullptr ? sleeper->who : nullptr;
    lock_.unlock();
    if (who != nullptr) unpark(*who);
  }

  /// By the fiber: blocks until complete(). True: it was cancelled meanwhile, and the operation has been told so.
  /// Throws `cancelled` in the unwinding of a deadlock alone.
  bool wait() {
    if (sleep() == wake::fired) return false;
    tell();
    const lock_wait not_interrupted(this_waiter());
    if (sleep() != wake::fired) throw_cancelled();
    return true;
  }

 private:
  wake sleep() noexcept {
    lock_.lock();
    if (done_) {
      lock_.unlock();
      return wake::fired;
    }
    wait_node node;
    const wake how = sleep_in({lock_, waiters_}, node, {"asio operation", this});
    if (how != wake::fired) lock_.unlock();
    return how;
  }

  void tell() {
    const std::lock_guard turn(turn_);
    lock_.lock();
    const bool over = done_;
    lock_.unlock();
    if (!over) canceller_.emit();
  }

  recursive_mutex turn_;
  operation_canceller canceller_;  // guarded by turn_, once the operation has begun
  spin_lock lock_;
  wait_queue waiters_;
  bool done_ = false;
};

// ---- results -------------------------------------------------------------------------------------------------------

/// The value of a call with these results: nothing, the one, or all as a tuple.
template <class... Values>
struct operation_value {
  using type = std::tuple<Values...>;
  static type of(std::tuple<Values...>&& values) { return std::move(values); }
};
template <class Value>
struct operation_value<Value> {
  using type = Value;
  static type of(std::tuple<Value>&& values) { return std::get<0>(std::move(values)); }
};
template <>
struct operation_value<> {
  using type = void;
  static void of(std::tuple<>&&) noexcept {}
};

/// Error: boost::system::error_code, std::exception_ptr, or void if a call of the handler always means success.
template <class Error, class... Values>
class fiber_operation final : public asio_operation {
 public:
  using value = operation_value<Values...>;
  using value_type = typename value::type;

  /// By the handler.
  template <class... Arguments>
  void arrive(Arguments&&... arguments) noexcept {
    try {
      if constexpr (std::is_void_v<Error>)
        values_.emplace(std::forward<Arguments>(arguments)...);
      else
        arrive_or_fail(std::forward<Arguments>(arguments)...);
    } catch (...) {
      exception_ = std::current_exception();
    }
    complete();
  }

  /// By the handler that is destroyed without a call: there is neither a value nor an error.
  void abandon() noexcept { complete(); }

  /// By the fiber: waits, and returns the values or throws.
  value_type get() {
    const bool told = wait();
    if (values_) return value::of(std::move(*values_));
    if (exception_) rethrow(told);
    // Whatever the error is: operations have several for it, as experimental::error::channel_cancelled.
    if (told && error_) throw_cancelled();
    if (error_) throw boost::system::system_error(error_);
    throw boost::system::system_error(boost::asio::error::operation_aborted, "coir: the operation was given up");
  }

 private:
  template <class... Arguments>
  void arrive_or_fail(const boost::system::error_code& error, Arguments&&... arguments) {
    if (error)
      error_ = error;
    else
      values_.emplace(std::forward<Arguments>(arguments)...);
  }
  template <class... Arguments>
  void arrive_or_fail(const std::exception_ptr& exception, Arguments&&... arguments) {
    if (exception)
      exception_ = exception;
    else
      values_.emplace(std::forward<Arguments>(arguments)...);
  }

  [[noreturn]] void rethrow(bool told) {
    try {
      std::rethrow_exception(std::move(exception_));
    } catch (const boost::system::system_error&) {
      if (!told) throw;
    }
    throw_cancelled();
  }

  std::optional<std::tuple<Values...>> values_;
  boost::system::error_code error_;
  std::exception_ptr exception_;
};

template <class... Arguments>
struct fiber_operation_of {
  using type = fiber_operation<void, Arguments...>;
};
template <class... Arguments>
struct fiber_operation_of<boost::system::error_code, Arguments...> {
  using type = fiber_operation<boost::system::error_code, Arguments...>;
};
template <class... Arguments>
struct fiber_operation_of<std::exception_ptr, Arguments...> {
  using type = fiber_operation<std::exception_ptr, Arguments...>;
};

// ---- what Asio has -------------------------------------------------------------------------------------------------

/// Called or destroyed once, by any thread or fiber. Move-only.
template <class Operation>
class fiber_handler {
 public:
  explicit fiber_handler(std::shared_ptr<Operation> operation) noexcept : operation_(std::move(operation)) {}
  ~fiber_handler() {
    if (operation_) operation_->abandon();
  }
  fiber_handler(fiber_handler&&) noexcept = default;
  fiber_handler& operator=(fiber_handler&&) = delete;

  template <class... Arguments>
  void operator()(Arguments&&... arguments) {
    std::exchange(operation_, nullptr)->arrive(std::forward<Arguments>(arguments)...);
  }

#if BOOST_VERSION >= 107700
  using cancellation_slot_type = operation_canceller::slot_type;
  cancellation_slot_type get_cancellation_slot() const noexcept {
    return operation_ ? operation_->canceller().slot() : cancellation_slot_type();
  }
#endif

  std::shared_ptr<asio_operation> operation() const noexcept { return operation_; }

 private:
  std::shared_ptr<Operation> operation_;
};

/// `Inner`, except that what it runs are steps of an operation.
template <class Inner>
class step_executor {
 public:
  step_executor(std::shared_ptr<asio_operation> operation, Inner inner) noexcept
      : operation_(std::move(operation)), inner_(std::move(inner)) {}

  template <class F>
  void execute(F&& f) const {
    inner_.execute([operation = operation_, g = std::forward<F>(f)]() mutable { operation->step(g); });
  }

  template <class Property>
    requires(boost::asio::can_query<const Inner&, Property>::value)
  decltype(auto) query(const Property& p) const noexcept(boost::asio::is_nothrow_query<const Inner&, Property>::value) {
    return boost::asio::query(inner_, p);
  }
  template <class Property>
    requires(boost::asio::can_require<const Inner&, Property>::value)
  auto require(const Property& p) const noexcept(boost::asio::is_nothrow_require<const Inner&, Property>::value) {
    return like(boost::asio::require(inner_, p));
  }
  template <class Property>
    requires(boost::asio::can_prefer<const Inner&, Property>::value)
  auto prefer(const Property& p) const noexcept(boost::asio::is_nothrow_prefer<const Inner&, Property>::value) {
    return like(boost::asio::prefer(inner_, p));
  }

  friend bool operator==(const step_executor& a, const step_executor& b) noexcept {
    return a.operation_ == b.operation_ && a.inner_ == b.inner_;
  }
  friend bool operator!=(const step_executor& a, const step_executor& b) noexcept { return !(a == b); }

 private:
  template <class Other>
  step_executor<std::decay_t<Other>> like(Other&& inner) const noexcept {
    return {operation_, std::forward<Other>(inner)};
  }

  std::shared_ptr<asio_operation> operation_;
  Inner inner_;
};

/// The executor of a handler for which Asio would have taken `Executor`. One of the Networking TS is taken as it is.
template <class Executor>
struct step_executor_for {
  static constexpr bool is_wrapped = boost::asio::execution::is_executor<Executor>::value;
  using type = std::conditional_t<is_wrapped, step_executor<Executor>, Executor>;

  template <class Operation>
  static type get(const fiber_handler<Operation>& handler, const Executor& executor) noexcept {
    if constexpr (is_wrapped)
      return {handler.operation(), executor};
    else
      return executor;
  }
};

}  // namespace coir::detail
