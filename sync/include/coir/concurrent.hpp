// Several functions at the same time, as one call. Each branch runs in a fiber of its own, and no branch is left when
// the call returns or throws.
//
//   auto [user, orders] = coir::concurrently([&] { return load_user(id); }, [&] { return load_orders(id); });
//   std::variant<page, page> first = coir::race([&] { return ask(mirror_a); }, [&] { return ask(mirror_b); });
//   std::vector<page> pages = coir::map_concurrently(urls, 8, [](const std::string& url) { return fetch(url); });
//
// Use these for branches that mostly wait. For loops that compute, use <coir/parallel.hpp>.
//
// All of these calls block. They throw not_in_runtime outside a fiber, and std::bad_alloc. If the calling fiber is
// cancelled, its branches are cancelled too, and the call throws `cancelled` when they have ended.
//
// A branch that ends by `cancelled` while its caller is not being cancelled has failed as by any other exception; for
// example, the branch may throw `cancelled` itself. concurrently() and map_concurrently() then throw task_cancelled.
// race() keeps the exception for race_failed.
//
// The functions are called where they are, and not copied. concurrently() and race() call a function as an rvalue if it
// was passed as one. map_concurrently() always calls its function as an lvalue.
// Happens-before: the call happens before each branch. The end of each branch happens before the return.
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

/// Runs the functions at the same time. Returns what they return, in the order of the arguments; std::monostate stands
/// for void. The first function that fails cancels the others: their blocking calls throw `cancelled`. When all have
/// ended, the exception of that first function is rethrown. Later failures are dropped.
template <std::invocable... Functions>
[[nodiscard]] auto concurrently(Functions&&... functions) -> std::tuple<detail::branch_value<Functions>...> {
  static_cast<void>(detail::current_scheduler("coir::concurrently"));
  return detail::all_of<Functions...>(std::index_sequence_for<Functions...>(), functions...);
}

/// Runs the functions at the same time. Returns what the first function that succeeds returns, at the position of that
/// function in the variant (std::monostate for void, std::reference_wrapper for a reference). This function cancels the
/// others, which have ended when race() returns. What the others return or throw is dropped. If all functions fail,
/// throws race_failed, which holds every exception.
template <std::invocable... Functions>
  requires(sizeof...(Functions) > 0)
auto race(Functions&&... functions) -> std::variant<detail::racer_value<Functions>...> {
  static_cast<void>(detail::current_scheduler("coir::race"));
  return detail::first_of<Functions...>(std::index_sequence_for<Functions...>(), functions...);
}

/// Calls f for every element of the range. Each call runs in a fiber of its own, and at most `limit` calls run at once.
/// Returns what the calls return, in the order of the range, or nothing if f returns void. If f returns a reference,
/// the value that it refers to is stored.
///
/// The calling fiber goes through the range, and takes an element when there is room for a call. So the range may be a
/// channel, or have no end. If the range is a forward range of references, f gets what the range refers to. Otherwise f
/// gets the element itself, as an rvalue.
///
/// The first call that fails cancels the others. It also ends the walk through the range, even if the walk blocks
/// there. When all calls have ended, the exception of that first call is rethrown. An exception that the range throws
/// is such a failure too. Throws std::invalid_argument if the limit is 0.
template <std::ranges::input_range Range, class F>
  requires std::invocable<F&, detail::element_argument<Range>>
auto map_concurrently(Range&& range, std::size_t limit, F&& f, source_location at = source_location::current())
    -> detail::mapped<Range, F> {
  detail::mapping<Range, F> all(limit, f, at);
  return all.run(range);
}

}  // namespace coir
