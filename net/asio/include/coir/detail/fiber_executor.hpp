// The executor of an asio_stream: Asio wants every stream to have one. Not for users.
//
// Submitted work runs in a fiber of its own, so nothing waits for an io_context that nobody runs. But the context is an
// io_context, because asio::ssl::stream looks there for the service of its timers, which it needs only for asynchronous
// functions. In an io_context that service has no thread; a plain execution_context would start one.
#pragma once

#include <utility>

#include <boost/asio/execution.hpp>
#include <boost/asio/io_context.hpp>

#include <coir/detail/abi.hpp>
#include <coir/runtime.hpp>

namespace coir::inline COIR_ABI::detail {

class fiber_executor {
 public:
  static boost::asio::execution_context& query(boost::asio::execution::context_t) {
    // Never destroyed: streams of static storage may use it until the end of the process.
    static auto& context = *new boost::asio::io_context;
    return context;
  }

  static constexpr boost::asio::execution::blocking_t query(boost::asio::execution::blocking_t) noexcept {
    return boost::asio::execution::blocking.never;
  }
  static constexpr fiber_executor require(boost::asio::execution::blocking_t::never_t) noexcept { return {}; }

  template <class F>
  void execute(F&& f) const {
    coir::go(std::forward<F>(f));
  }

  friend constexpr bool operator==(fiber_executor, fiber_executor) noexcept { return true; }
  friend constexpr bool operator!=(fiber_executor, fiber_executor) noexcept { return false; }
};

}  // namespace coir::detail
