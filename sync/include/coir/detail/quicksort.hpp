// parallel_sort's algorithm: a quicksort whose parts go to other members of a crew as long as processors have nothing
// to do. Not for users.
//
// Each member keeps the parts that it has put off on a stack of its own, and sorts the smaller of two parts first.
// Between two parts it looks for a processor without work. If there is one, it gives the oldest part, which is the
// largest, to a new helper. With one processor that leaves a sequential sort.
//
// Each step may rely on this: the element before a part, if there is one, is a pivot in its final place, which is not
// touched any more. If it equals the new pivot, the part's elements are not less than it. Those equal to it then come
// first and are done, so many equal elements make the sort faster. A partition that is badly out of balance uses up
// some of the part's budget. With none left std::sort takes over, whose worst case is n log n.
//
// The partition is by blocks (Edelkamp and Weiss, "BlockQuicksort", 2016). The outcomes of a block's comparisons are
// written down as offsets, without a branch that could be mispredicted. The swaps follow. So a comparison that throws
// leaves every element in the range.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <type_traits>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/crew.hpp>
#include <coir/source_location.hpp>

namespace coir::inline COIR_ABI::detail {

/// The untyped part: when a member stops for a moment, and which parts it gives away.
class sort_crew {
 public:
  explicit sort_crew(source_location at) : crew_("coir::parallel_sort"), at_(at) {}

  template <class F>
  void lead(F&& f) {
    crew_.lead(std::forward<F>(f));
  }
  template <class F>
  void help(F&& f) {
    crew_.help(std::forward<F>(f), at_);
  }
  bool over() const noexcept { return crew_.over(); }

  /// A member's own clock: the number of elements that it has sorted since it last looked up.
  class progress {
   public:
    progress() noexcept;

   private:
    friend class sort_crew;
    std::int64_t turn_began_;
    std::size_t sorted_ = 0;
  };

  /// Called after `elements` were partitioned or sorted. True: a processor has nothing to do. Now and then it lets
  /// other fibers run. Throws `cancelled`.
  bool look_up(progress& own, std::size_t elements) {
    own.sorted_ += elements;
    return own.sorted_ >= between_looks && look_up_now(own);
  }

 private:
  static constexpr std::size_t between_looks = 2048;  // elements; some 50 us if they are cheap

  bool look_up_now(progress& own);

  crew crew_;
  const source_location at_;
};

template <class Iterator, class Compare>
class quicksort {
 public:
  quicksort(Iterator first, Iterator last, Compare& less, source_location at)
      : crew_(at), first_(first), last_(last), less_(less) {}

  /// Blocks. Rethrows what a comparison has thrown.
  void run() {
    const auto count = static_cast<std::size_t>(last_ - first_);
    crew_.lead([&] {
      if (std::is_sorted(first_, last_, std::ref(less_))) return;
      sort(part{first_, last_, static_cast<unsigned>(std::bit_width(count))});
    });
  }

 private:
  using difference = std::iter_difference_t<Iterator>;
  using value = std::iter_value_t<Iterator>;

  struct part {
    Iterator first;
    Iterator last;
    unsigned budget;  // of bad partitions

    std::size_t size() const { return static_cast<std::size_t>(last - first); }
  };

  static constexpr std::size_t small = 192;  // for std::sort
  static constexpr std::size_t worth_giving = 2048;
  static constexpr std::size_t block = 64;
  /// Such a value is copied while others are compared with it, since the compiler cannot know that it stays the same.
  static constexpr bool cheap_value = std::is_trivially_copyable_v<value> && sizeof(value) <= 16;

  void sort(part now) {
    std::array<part, 64> put_off;  // each one is at most half as large as the one before, given away or not
    std::size_t oldest = 0;
    std::size_t end = 0;
    sort_crew::progress own;
    while (!crew_.over()) {
      const std::size_t size = now.size();
      const bool divided = size > small && now.budget != 0;
      if (divided) {
        put_off[end] = divide(now);
        if (put_off[end].size() > 1) ++end;
      } else {
        std::sort(now.first, now.last, std::ref(less_));
      }
      if (crew_.look_up(own, size) && oldest != end && put_off[oldest].size() >= worth_giving)
        crew_.help([this, given = put_off[oldest++]] { sort(given); });
      if (divided) continue;
      if (oldest == end) return;
      now = put_off[--end];
      if (oldest == end) oldest = end = 0;
    }
  }

  /// Partitions p, of which the smaller part stays; returns the larger.
  part divide(part& p) {
    choose_pivot(p);
    if (p.first != first_ && !less_(*(p.first - 1), *p.first)) {
      // What equals the pivot is done.
      const value& before = *(p.first - 1);
      p.first = std::partition(p.first, p.last, [&](const auto& e) { return !less_(before, e); });
      return part{p.first, p.first, 0};
    }
    const Iterator pivot = partition(p.first, p.last);
    part left{p.first, pivot, p.budget};
    part right{pivot + 1, p.last, p.budget};
    if (std::min(left.size(), right.size()) < p.size() / 8) left.budget = right.budget = p.budget - 1;
    if (left.size() < right.size()) std::swap(left, right);
    p = right;
    return left;
  }

  /// Moves it to the front.
  void choose_pivot(part& p) {
    const difference size = p.last - p.first;
    const Iterator middle = p.first + size / 2;
    Iterator pivot = middle;
    if (size < 1024) {
      pivot = median(p.first, middle, p.last - 1);
    } else {
      const difference step = size / 8;
      pivot = median(median(p.first, p.first + step, p.first + 2 * step), median(middle - step, middle, middle + step),
                     median(p.last - 1 - 2 * step, p.last - 1 - step, p.last - 1));
    }
    if (pivot != p.first) std::iter_swap(p.first, pivot);
  }

  Iterator median(Iterator a, Iterator b, Iterator c) {
    if (less_(*b, *a)) std::swap(a, b);
    if (!less_(*c, *b)) return b;
    return less_(*c, *a) ? a : c;
  }

  /// Partitions around the first element and returns its new place: lesser elements come before it, all others behind.
  Iterator partition(Iterator first, Iterator last) {
    const std::conditional_t<cheap_value, const value, const value&> pivot = *first;
    const Iterator middle = partition_rest(first + 1, last, [&](const auto& e) { return less_(e, pivot); });
    std::iter_swap(first, middle - 1);
    return middle - 1;
  }

  template <class IsLess>
  static Iterator partition_rest(Iterator left, Iterator right, IsLess is_less) {
    // Offsets of the elements on the wrong side: from the front of the left block, and from the back of the right one.
    std::uint8_t wrong_left[block];
    std::uint8_t wrong_right[block];
    std::size_t left_begin = 0, left_end = 0, right_begin = 0, right_end = 0;
    Iterator left_block = left;
    Iterator right_block = right;
    while (right - left >= static_cast<difference>(2 * block)) {
      if (left_begin == left_end) {
        left_begin = left_end = 0;
        left_block = left;
        for (std::size_t i = 0; i < block; ++i) {
          wrong_left[left_end] = static_cast<std::uint8_t>(i);
          left_end += is_less(*(left_block + static_cast<difference>(i))) ? 0 : 1;
        }
        left += static_cast<difference>(block);
      }
      if (right_begin == right_end) {
        right_begin = right_end = 0;
        right_block = right;
        for (std::size_t i = 1; i <= block; ++i) {
          wrong_right[right_end] = static_cast<std::uint8_t>(i);
          right_end += is_less(*(right_block - static_cast<difference>(i))) ? 1 : 0;
        }
        right -= static_cast<difference>(block);
      }
      const std::size_t pairs = std::min(left_end - left_begin, right_end - right_begin);
      for (std::size_t i = 0; i < pairs; ++i)
        std::iter_swap(left_block + wrong_left[left_begin + i], right_block - wrong_right[right_begin + i]);
      left_begin += pairs;
      right_begin += pairs;
    }
    // In a block that is not done, the elements before its first wrong one are right.
    if (left_begin != left_end) left = left_block + wrong_left[left_begin];
    if (right_begin != right_end) right = right_block - (wrong_right[right_begin] - 1);
    return std::partition(left, right, is_less);
  }

  sort_crew crew_;
  const Iterator first_;
  const Iterator last_;
  Compare& less_;
};

}  // namespace coir::detail
