// async<T> by name, for those who run a function, and must not mistake one that returns an async for one that has run.
// Not for users.
#pragma once

#include <type_traits>

namespace coir {

template <class T = void>
class async;  // <coir/async.hpp>

namespace detail {

template <class T>
inline constexpr bool is_async = false;
template <class T>
inline constexpr bool is_async<async<T>> = true;

/// Of a function that is called for its effect: nothing of an async runs before it is awaited or started.
template <class Result>
constexpr void check_has_run() {
  static_assert(!is_async<std::remove_cvref_t<Result>>,
                "coir: this function returns a coir::async, which nobody would run; go() it in an ordinary function");
}

}  // namespace detail
}  // namespace coir
