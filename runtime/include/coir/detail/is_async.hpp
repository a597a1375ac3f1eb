// Declares async<T>, for code that runs a function and must not take one that returns an async for one that has run.
// Not for users.
#pragma once

#include <type_traits>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI {

template <class T = void>
class async;  // <coir/async.hpp>

namespace detail {

template <class T>
inline constexpr bool is_async = false;
template <class T>
inline constexpr bool is_async<async<T>> = true;

/// Checks the result of a function that is called for its effect: nothing of an async runs before it is awaited or
/// started.
template <class Result>
constexpr void check_has_run() {
  static_assert(!is_async<std::remove_cvref_t<Result>>,
                "coir: this function returns a coir::async, which nobody would run; go() it in an ordinary function");
}

/// GCC before 13 destroys a closure twice if it is made within a co_await expression. That does no harm to a closure
/// that captures references and numbers. `Given` as it was deduced for a forwarding reference.
template <class Given>
inline constexpr bool may_be_made_in_co_await =
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
    std::is_reference_v<Given> || std::is_trivially_destructible_v<Given>;
#else
    true;
#endif

/// Checks a function that is given to an operation that is to be awaited.
template <class Given>
constexpr void check_made_in_co_await() {
  static_assert(may_be_made_in_co_await<Given>,
                "coir: this compiler destroys twice a closure that is made within a co_await expression; give it a "
                "name, and pass it as an lvalue: auto f = [...] {...}; co_await c.async_wait(lock, f)");
}

}  // namespace detail
}  // namespace coir
