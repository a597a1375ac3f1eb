// Loops, reductions and sorts that use all processors:
//
//   coir::parallel_for(0, height, [&](int y) { blur_line(picture, y); });
//   double sum = coir::parallel_reduce(v.begin(), v.end(), 0.0, [](double x) { return x * x; }, std::plus<>());
//   coir::parallel_sort(names);
//
// The calling fiber takes part itself; others join it on processors that have nothing to do. At most as many bodies are
// run at a time as there are processors: for many bodies that mostly wait there is map_concurrently().
//
// Bodies are fibers' code as any other: they may block, lock, use channels, start fibers, and call these functions
// again. What ends as a plain loop ends here too: a body may wait for what the bodies before it do (but not for those
// after it).
//
// Failure: the first exception that leaves a body, map, combine or comparison ends the loop early. No new body begins,
// the blocking calls of those that have begun throw `cancelled`, and when all of these have ended it is rethrown. If
// the calling fiber is cancelled the same happens with `cancelled`; that is looked at between bodies too. `cancelled`
// that a body throws itself in another fiber than the caller's is rethrown as task_cancelled.
//
// The functions are called by several fibers at once, as lvalues, and are not copied.
// All of these block, and throw not_in_runtime outside a fiber, std::bad_alloc. A loop that computes lets other fibers
// run every few milliseconds.
// Happens-before: the call before each body; the end of each body before the return.
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

/// Calls body(i) for every integer from `first` to before `last`, as `for (auto i = first; i < last; ++i)` does, in no
/// particular order. Both are converted to their common type; std::invalid_argument if that cannot hold `first`.
template <detail::counting First, detail::counting Last, class Body>
void parallel_for(First first, Last last, Body&& body, parallel_options options = {},
                  source_location at = source_location::current()) {
  detail::run_bodies(detail::integer_index(first, last), body, options, at);
}

/// Calls body(*i) for every iterator from `first` to before `last`.
template <std::random_access_iterator First, std::sized_sentinel_for<First> Last, class Body>
void parallel_for(First first, Last last, Body&& body, parallel_options options = {},
                  source_location at = source_location::current()) {
  detail::run_bodies(detail::iterator_index(first, last), body, options, at);
}

/// Calls body(element) for every element.
template <std::ranges::random_access_range Range, class Body>
requires std::ranges::sized_range<Range>
void parallel_for(Range&& range, Body&& body, parallel_options options = {},
                  source_location at = source_location::current()) {
  detail::run_bodies(detail::range_index(range), body, options, at);
}

/// combine(identity, map of the first, map of the second, ...): combine takes two T, and is associative; it need not be
/// commutative. Which neighbours are combined first depends on their number (and the grain) alone, never on the
/// schedule or the number of processors: sums of floating-point numbers, too, are the same every time. With a grain, so
/// many elements at a time are combined from the left. T is movable. Nothing to map: identity.
template <detail::counting First, detail::counting Last, std::movable T, class Map, class Combine>
[[nodiscard]] T parallel_reduce(First first, Last last, T identity, Map&& map, Combine&& combine,
                                parallel_options options = {}, source_location at = source_location::current()) {
  return detail::reduce(detail::integer_index(first, last), std::move(identity), map, combine, options, at);
}

template <std::random_access_iterator First, std::sized_sentinel_for<First> Last, std::movable T, class Map,
          class Combine>
[[nodiscard]] T parallel_reduce(First first, Last last, T identity, Map&& map, Combine&& combine,
                                parallel_options options = {}, source_location at = source_location::current()) {
  return detail::reduce(detail::iterator_index(first, last), std::move(identity), map, combine, options, at);
}

template <std::ranges::random_access_range Range, std::movable T, class Map, class Combine>
requires std::ranges::sized_range<Range>
[[nodiscard]] T parallel_reduce(Range&& range, T identity, Map&& map, Combine&& combine, parallel_options options = {},
                                source_location at = source_location::current()) {
  return detail::reduce(detail::range_index(range), std::move(identity), map, combine, options, at);
}

/// Sorts by a strict weak order, as std::sort: equal elements change places as it likes. After a failure the elements
/// are in some order; if a comparison threw inside std::sort, which sorts the small parts, some may be moved from.
template <std::ranges::random_access_range Range, class Compare = std::ranges::less>
requires std::sortable<std::ranges::iterator_t<Range>, Compare>
void parallel_sort(Range&& range, Compare less = {}, source_location at = source_location::current()) {
  const auto first = std::ranges::begin(range);
  detail::quicksort(first, std::ranges::next(first, std::ranges::end(range)), less, at).run();
}

/// Calls each of the functions, once, in any order. What they return is dropped. `first` is made of a function.
template <std::invocable... Functions>
void parallel_invoke(detail::first_invocation first, Functions&&... functions) {
  const detail::invocation calls[] = {first, detail::invocation(functions)...};
  detail::run_calls(calls, 1 + sizeof...(Functions), first.at);
}
inline void parallel_invoke(source_location at = source_location::current()) { detail::run_calls(nullptr, 0, at); }

}  // namespace coir
