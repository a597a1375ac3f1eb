// Several things at once, as one call: each branch in a fiber of its own, and none of them left when the call returns
// or throws.
//
//   auto [user, orders] = coir::concurrently([&] { return load_user(id); }, [&] { return load_orders(id); });
//   std::variant<page, page> first = coir::race([&] { return ask(mirror_a); }, [&] { return ask(mirror_b); });
//   std::vector<page> pages = coir::map_concurrently(urls, 8, [](const std::string& url) { return fetch(url); });
//
// For branches that mostly wait. For loops that compute there is <coir/parallel.hpp>.
//
// All of these block, need a fiber (they throw not_in_runtime outside one), and throw std::bad_alloc. If the calling
// fiber is cancelled its branches are cancelled too, and `cancelled` is thrown when they have ended. A branch that ends
// by `cancelled` though its caller is not being cancelled (it may throw that itself) has failed as by any exception,
// and the caller hears of it by task_cancelled; from race() by race_failed, which holds it. The functions are called
// where they are, and not copied: by reference, as rvalues if they were passed so. Happens-before: the call before each
// branch; the end of each branch before the return.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <coir/detail/abi.hpp>
#include <coir/detail/branches.hpp>
#include <coir/detail/crew.hpp>
#include <coir/error.hpp>
#include <coir/source_location.hpp>
#include <coir/task_group.hpp>

namespace coir::inline COIR_ABI {

/// Runs the functions at the same time, and returns what they return, in the order written; std::monostate for void.
/// The first that fails cancels the others (their blocking calls throw `cancelled`), and what it threw is rethrown when
/// all have ended; later failures are dropped.
template <std::invocable... Functions>
[[nodiscard]] auto concurrently(Functions&&... functions) -> std::tuple<detail::branch_value<Functions>...> {
  static_cast<void>(detail::current_scheduler("coir::concurrently"));
  return detail::all_of<Functions...>(std::index_sequence_for<Functions...>(), functions...);
}

/// Runs the functions at the same time, and returns what the first that succeeds returns, by its position
/// (std::monostate for void, std::reference_wrapper for a reference). It cancels the others, which have ended when
/// race() returns; what they return or throw is dropped. If all fail: race_failed, which holds every exception.
template <std::invocable... Functions>
requires(sizeof...(Functions) > 0) auto race(Functions&&... functions)
    -> std::variant<detail::racer_value<Functions>...> {
  static_cast<void>(detail::current_scheduler("coir::race"));
  return detail::first_of<Functions...>(std::index_sequence_for<Functions...>(), functions...);
}

/// Calls f for every element of the range, each in a fiber of its own, at most `limit` at once, and returns what these
/// calls return, in the order of the range; nothing, if that is void. For a reference, the value is stored.
///
/// The calling fiber goes through the range, and takes an element when there is room for a call. So a range may be a
/// channel, or have no end. f is given what the range refers to, if it is a forward range of references, else the
/// element itself, as an rvalue.
///
/// The first call that fails cancels the others, and ends the walk through the range, even if it blocks there; what it
/// threw is rethrown when all have ended. Throws std::invalid_argument if the limit is 0; what the range throws is such
/// a failure too.
template <std::ranges::input_range Range, class F>
requires std::invocable<F&, detail::element_argument<Range>>
auto map_concurrently(Range&& range, std::size_t limit, F&& f, source_location at = source_location::current())
    -> detail::mapped<Range, F> {
  detail::mapping<Range, F> all(limit, f, at);
  return all.run(range);
}

}  // namespace coir
