// Loops, reductions and sorts that use all processors.
//
//   coir::parallel_for(0, height, [&](int y) { blur_line(picture, y); });
//   double sum = coir::parallel_reduce(v.begin(), v.end(), 0.0, [](double x) { return x * x; }, std::plus<>());
//   coir::parallel_sort(names);
//
// The calling fiber takes part in the work. Other fibers join it on processors that have nothing to do. At most as many
// bodies run at a time as there are processors. For many bodies that mostly wait, use map_concurrently().
//
// A body is ordinary fiber code. It may block, lock, use channels, start fibers, and call these functions again. A loop
// that ends as a plain loop ends here too, so a body may wait for something that the bodies before it do. It must not
// wait for something that the bodies after it do.
//
// Failure: the first exception that leaves a body, map, combine or comparison ends the loop early. No new body begins.
// The blocking calls of the bodies that have begun throw `cancelled`. When these bodies have ended, the exception is
// rethrown. A cancellation of the calling fiber ends the loop in the same way, and the call throws `cancelled`. The
// loop also checks for it between bodies, after each grain of them (parallel_options). If a body throws `cancelled`
// itself, in another fiber than the caller's, the call throws task_cancelled.
//
// Several fibers call the functions at once, as lvalues. The functions are not copied.
// All of these calls block. They throw not_in_runtime outside a fiber, and std::bad_alloc. A loop that computes lets
// other fibers run every few milliseconds.
// Happens-before: the call happens before each body. The end of each body happens before the return.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <ranges>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/parallel_index.hpp>
#include <coir/detail/parallel_loop.hpp>
#include <coir/detail/quicksort.hpp>
#include <coir/detail/reduction.hpp>
#include <coir/error.hpp>
#include <coir/parallel_options.hpp>
#include <coir/source_location.hpp>

namespace coir::inline COIR_ABI {

/// As `for (auto i = first; i < last; ++i) body(i)`, but in no particular order: calls body(i) for every integer from
/// `first` up to, but not including, `last`. Both are converted to their common type. Throws std::invalid_argument if
/// that type cannot hold `first`.
template <detail::counting First, detail::counting Last, class Body>
void parallel_for(First first, Last last, Body&& body, parallel_options options = {},
                  source_location at = source_location::current()) {
  detail::run_bodies(detail::integer_index(first, last), body, options, at);
}

/// Calls body(*i) for every iterator from `first` up to, but not including, `last`, in no particular order.
template <std::random_access_iterator First, std::sized_sentinel_for<First> Last, class Body>
void parallel_for(First first, Last last, Body&& body, parallel_options options = {},
                  source_location at = source_location::current()) {
  detail::run_bodies(detail::iterator_index(first, last), body, options, at);
}

/// Calls body(element) for every element, in no particular order.
template <std::ranges::random_access_range Range, class Body>
  requires std::ranges::sized_range<Range>
void parallel_for(Range&& range, Body&& body, parallel_options options = {},
                  source_location at = source_location::current()) {
  detail::run_bodies(detail::range_index(range), body, options, at);
}

/// Returns combine(identity, map of the first, map of the second, ...). combine takes two T and must be associative. It
/// need not be commutative. The elements are combined in an order that depends on their number and on the grain alone,
/// never on the schedule or on the number of processors. So even a sum of floating-point numbers is the same each time.
/// With a grain, that many elements at a time are combined from the left. T must be movable. Without elements, returns
/// identity.
template <detail::counting First, detail::counting Last, std::movable T, class Map, class Combine>
[[nodiscard]] T parallel_reduce(First first, Last last, T identity, Map&& map, Combine&& combine,
                                parallel_options options = {}, source_location at = source_location::current()) {
  return detail::reduce(detail::integer_index(first, last), std::move(identity), map, combine, options, at);
}

/// The same for `*i` of every iterator i from `first` up to, but not including, `last`.
template <std::random_access_iterator First, std::sized_sentinel_for<First> Last, std::movable T, class Map,
          class Combine>
[[nodiscard]] T parallel_reduce(First first, Last last, T identity, Map&& map, Combine&& combine,
                                parallel_options options = {}, source_location at = source_location::current()) {
  return detail::reduce(detail::iterator_index(first, last), std::move(identity), map, combine, options, at);
}

/// The same for the elements of a range.
template <std::ranges::random_access_range Range, std::movable T, class Map, class Combine>
  requires std::ranges::sized_range<Range>
[[nodiscard]] T parallel_reduce(Range&& range, T identity, Map&& map, Combine&& combine, parallel_options options = {},
                                source_location at = source_location::current()) {
  return detail::reduce(detail::range_index(range), std::move(identity), map, combine, options, at);
}

/// Sorts by a strict weak order. As with std::sort, equal elements may change places. After a failure, the elements are
/// in some order. If a comparison threw inside std::sort, which sorts the small parts, some elements may be moved from.
template <std::ranges::random_access_range Range, class Compare = std::ranges::less>
  requires std::sortable<std::ranges::iterator_t<Range>, Compare>
void parallel_sort(Range&& range, Compare less = {}, source_location at = source_location::current()) {
  const auto first = std::ranges::begin(range);
  detail::quicksort(first, std::ranges::next(first, std::ranges::end(range)), less, at).run();
}

/// Calls each of the functions once, in any order. What they return is dropped. `first` converts from a function.
template <std::invocable... Functions>
void parallel_invoke(detail::first_invocation first, Functions&&... functions) {
  const detail::invocation calls[] = {first, detail::invocation(functions)...};
  detail::run_calls(calls, 1 + sizeof...(Functions), first.at);
}
/// The same without functions: there is nothing to call.
inline void parallel_invoke(source_location at = source_location::current()) { detail::run_calls(nullptr, 0, at); }

}  // namespace coir
