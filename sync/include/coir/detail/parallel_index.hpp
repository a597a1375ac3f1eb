// The ranges that the parallel forms run over, as numbers from 0 on: integers, iterators, functions. Not for users.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <ranges>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/parallel_loop.hpp>
#include <coir/detail/reduction.hpp>
#include <coir/parallel_options.hpp>
#include <coir/source_location.hpp>

namespace coir::inline COIR_ABI::detail {

/// Integers of up to 64 bits.
template <class T>
concept counting = std::integral<T> && !std::same_as<std::remove_cv_t<T>, bool> && sizeof(T) <= sizeof(std::uint64_t);

/// from(n) is where the n-th element is found, next() what follows there, get() what the body is given.
template <counting Integer>
struct integer_index {
  template <counting First, counting Last>
  integer_index(First f, Last l) : first(static_cast<Integer>(f)) {
    __extension__ using wide = __int128;
    if (wide{f} >= wide{l}) return;
    if (wide{f} != wide{first})
      throw std::invalid_argument("coir: the first number of a loop is not of the common type of first and last");
    count = static_cast<std::uint64_t>(wide{l} - wide{f});
  }

  Integer from(std::uint64_t n) const {
    // Modulo 2^64, so that the whole range of a signed type works.
    return static_cast<Integer>(static_cast<std::uint64_t>(first) + n);
  }
  static Integer get(Integer i) { return i; }

  Integer first;
  std::uint64_t count = 0;
};

template <counting First, counting Last>
integer_index(First, Last) -> integer_index<std::common_type_t<First, Last>>;

template <std::random_access_iterator Iterator>
struct iterator_index {
  template <std::sized_sentinel_for<Iterator> Last>
  iterator_index(Iterator f, Last last) : first(std::move(f)) {
    const auto length = last - first;
    if (length > 0) count = static_cast<std::uint64_t>(length);
  }
  iterator_index(Iterator f, std::uint64_t length) : first(std::move(f)), count(length) {}

  Iterator from(std::uint64_t n) const { return first + static_cast<std::iter_difference_t<Iterator>>(n); }
  static decltype(auto) get(const Iterator& i) { return *i; }

  Iterator first;
  std::uint64_t count = 0;
};

template <class Iterator, class Last>
iterator_index(Iterator, Last) -> iterator_index<Iterator>;

template <class Range>
auto range_index(Range& range) {
  using iterator = std::ranges::iterator_t<Range>;
  return iterator_index<iterator>(std::ranges::begin(range), static_cast<std::uint64_t>(std::ranges::size(range)));
}

template <class Index, class Body>
void run_bodies(const Index& index, Body& body, parallel_options options, source_location at) {
  struct context {
    const Index& index;
    Body& body;
  } all{index, body};
  parallel_loop(
      "coir::parallel_for", index.count, options.grain,
      [](void* arg, std::uint64_t first, std::uint64_t last) {
        const context& c = *static_cast<context*>(arg);
        Body& f = c.body;
        auto i = c.index.from(first);
        for (const auto end = c.index.from(last); i != end; ++i) static_cast<void>(std::invoke(f, Index::get(i)));
      },
      &all, at)
      .run();
}

template <class Index, class T, class Map, class Combine>
T reduce(const Index& index, T identity, Map& map, Combine& combine, parallel_options options, source_location at) {
  static_assert(std::is_invocable_v<Combine&, T, T>, "coir: combine takes two values of the identity's type");
  auto element = [&](std::uint64_t n) -> decltype(auto) { return std::invoke(map, Index::get(index.from(n))); };
  reduction<T, decltype(element), Combine> tree(index.count, options.grain, element, combine);
  std::optional<T> total = tree.run("coir::parallel_reduce", at);
  if (!total) return identity;
  return static_cast<T>(std::invoke(combine, std::move(identity), *std::move(total)));
}

/// A function of parallel_invoke, by reference.
struct invocation {
  invocation() = default;
  template <class F>
  explicit invocation(F& f) noexcept
      : function(const_cast<void*>(static_cast<const volatile void*>(std::addressof(f)))),
        call([](void* of) { static_cast<void>(std::invoke(*static_cast<F*>(of))); }) {}

  void* function = nullptr;
  void (*call)(void*) = nullptr;
};

/// The first of them, and where the call is: a parameter behind a pack cannot have a default.
struct first_invocation : invocation {
  template <std::invocable F>
  first_invocation(F&& f, source_location where = source_location::current()) noexcept  // NOLINT: converts
      : invocation(f), at(where) {}

  source_location at;
};

void run_calls(const invocation* calls, std::uint64_t count, source_location at);

}  // namespace coir::detail
