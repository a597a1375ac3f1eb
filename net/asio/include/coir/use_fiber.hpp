// use_fiber: a completion token of Boost.Asio. An asynchronous operation that is started with it blocks the calling
// fiber (or thread) until it has completed, and returns its result.
//
//   asio::steady_timer timer(io_context, 100ms);
//   timer.async_wait(coir::use_fiber);
//   std::size_t n = socket.async_read_some(asio::buffer(data), coir::use_fiber);   // throws
//   boost::system::system_error
//
// The io_context runs elsewhere: io_context::run() in a thread of its own, or in a fiber, which then keeps its thread.
//
// The result of a completion signature R(Args...), with a leading boost::system::error_code or std::exception_ptr left
// out: void, the one value, or a std::tuple of several. An error is thrown: as boost::system::system_error, or as the
// exception itself. Not to throw, combine: asio::redirect_error(coir::use_fiber, error), asio::as_tuple(...).
//
// Cancellation. If the fiber is cancelled (or its coir::timeout expires), the operation is told through its
// cancellation slot (Boost 1.77 or later; before that it just goes on), and the call ends when the operation has
// completed. A result that arrived is not lost: it is returned, and the next blocking call throws `cancelled`. An
// operation that fails once it was told throws `cancelled`. With redirect_error and as_tuple the call returns: the
// error, and how much was done. No strand is needed for this, with several threads in io_context::run() either: the
// steps of a composed operation and its cancellation exclude each other.
//
// Executors. The steps of an operation run where Asio would have run them. To choose, bind an executor to the token
// itself: asio::bind_executor(strand, coir::use_fiber), and combine the result with others if need be.
//
// If the io_context is destroyed with the operation pending, the call throws system_error(operation_aborted). Since
// that goes on in the fiber, what belongs to the io_context and to that fiber must outlive neither.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/bind_executor.hpp>

#include <coir/detail/abi.hpp>
#include <coir/detail/fiber_operation.hpp>

namespace coir::inline COIR_ABI {

struct use_fiber_t {
  /// An executor for which use_fiber is the default token: operations of its I/O objects need none then.
  template <class Inner>
  struct executor_with_default : Inner {
    using default_completion_token_type = use_fiber_t;

    executor_with_default(const Inner& inner) noexcept : Inner(inner) {}
    template <class Other>
      requires(!std::is_same_v<Other, executor_with_default> && std::is_convertible_v<Other, Inner>)
    executor_with_default(const Other& other) noexcept : Inner(other) {}
  };

  /// The I/O object with use_fiber as its default token: `use_fiber_t::as_default_on_t<tcp::socket> s(io); s.async_...`
  template <class T>
  using as_default_on_t = typename T::template rebind_executor<executor_with_default<typename T::executor_type>>::other;

  template <class T>
  static auto as_default_on(T&& object) {
    return as_default_on_t<std::decay_t<T>>(std::forward<T>(object));
  }
};

inline constexpr use_fiber_t use_fiber;

}  // namespace coir

namespace boost::asio {

template <class R, class... Arguments>
class async_result<coir::use_fiber_t, R(Arguments...)> {
  using operation = typename coir::detail::fiber_operation_of<std::decay_t<Arguments>...>::type;

 public:
  using completion_handler_type = coir::detail::fiber_handler<operation>;
  using return_type = typename operation::value_type;

  template <class Initiation, class... Parameters>
  static return_type initiate(Initiation&& initiation, coir::use_fiber_t, Parameters&&... parameters) {
    const auto pending = std::make_shared<operation>();
    std::forward<Initiation>(initiation)(completion_handler_type(pending), std::forward<Parameters>(parameters)...);
    return pending->get();
  }
};

template <class Operation, class Candidate>
struct associated_executor<coir::detail::fiber_handler<Operation>, Candidate>
    : coir::detail::step_executor_for<Candidate> {
  static auto get(const coir::detail::fiber_handler<Operation>& handler,
                  const Candidate& candidate = Candidate()) noexcept {
    return coir::detail::step_executor_for<Candidate>::get(handler, candidate);
  }
};

template <class Operation, class Executor, class Candidate>
struct associated_executor<executor_binder<coir::detail::fiber_handler<Operation>, Executor>, Candidate>
    : coir::detail::step_executor_for<Executor> {
  static auto get(const executor_binder<coir::detail::fiber_handler<Operation>, Executor>& handler,
                  const Candidate& = Candidate()) noexcept {
    return coir::detail::step_executor_for<Executor>::get(handler.get(), handler.get_executor());
  }
};

}  // namespace boost::asio
