// How parallel_reduce puts results together: by a binary tree over *leaves*, runs of equally many elements. Its shape
// depends only on the number of elements (and on a given grain). So the result, of floating-point sums too, is the same
// on one processor and on sixty-four. Not for users.
//
// A node is named by its level and its place there. It covers the leaves from place << level on, 1 << level of them or
// as many as there are. Two nodes have one parent, and meet at the first leaf of the right one. The member that comes
// to the meeting first leaves its node's value there and goes. The second member takes it, combines the two, left
// before right, and goes on to the next meeting. So there are never more values than members have left behind on their
// ways up.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <coir/detail/abi.hpp>
#include <coir/detail/parallel_loop.hpp>

namespace coir::inline COIR_ABI::detail {

/// The untyped part: the leaves, and their order.
class reduction_shape {
 public:
  struct node {
    unsigned level;
    std::uint64_t place;

    std::uint64_t first_leaf() const noexcept { return place << level; }
    node parent() const noexcept { return {level + 1, place >> 1}; }
    bool is_left() const noexcept { return (place & 1) == 0; }
    node sibling() const noexcept { return {level, place ^ 1}; }
  };

  reduction_shape(std::uint64_t count, std::uint64_t grain);

  std::uint64_t count() const noexcept { return count_; }
  std::uint64_t leaves() const noexcept { return leaves_; }
  std::uint64_t leaf_begin(std::uint64_t leaf) const noexcept { return leaf * leaf_size_; }
  std::uint64_t leaf_end(std::uint64_t leaf) const noexcept {
    return count_ - leaf_begin(leaf) <= leaf_size_ ? count_ : leaf_begin(leaf) + leaf_size_;
  }
  bool is_root(node n) const noexcept { return n.place == 0 && (leaves_ - 1) >> n.level == 0; }
  /// Where it meets its sibling; `leaves()` or more if it has none.
  static std::uint64_t meeting(node n) noexcept { return (n.place | 1) << n.level; }
  /// The largest node that begins at leaf `first` and ends before `last`.
  static node largest(std::uint64_t first, std::uint64_t last) noexcept;

  // acquire: what the first one left there; release: pairs with it.
  bool other_was_there(std::uint64_t meeting) const noexcept { return came_[meeting].load(std::memory_order_acquire); }
  /// True: it comes first.
  bool come(std::uint64_t meeting) noexcept { return !came_[meeting].exchange(true, std::memory_order_acq_rel); }

 private:
  std::uint64_t count_;
  std::uint64_t leaf_size_;
  std::uint64_t leaves_;
  std::unique_ptr<std::atomic<bool>[]> came_;  // by meeting
};

/// map(i) gives the value of the i-th element.
template <class T, class Map, class Combine>
class reduction {
 public:
  reduction(std::uint64_t count, std::uint64_t grain, Map& map, Combine& combine)
      : shape_(count, grain), map_(map), combine_(combine), left_behind_(shape_.leaves()) {}

  /// Without elements there is no result. Blocks. Rethrows what a map or combine has thrown.
  std::optional<T> run(const char* what, source_location at) {
    parallel_loop(
        what, shape_.leaves(), 0,
        [](void* self, std::uint64_t first, std::uint64_t last) { static_cast<reduction*>(self)->leaves(first, last); },
        this, at)
        .run();
    return std::move(result_);
  }

 private:
  using node = reduction_shape::node;

  void leaves(std::uint64_t first, std::uint64_t last) {
    while (first < last) {
      const node n = reduction_shape::largest(first, last);
      go_up(n, value_of(n));
      first += std::uint64_t{1} << n.level;
    }
  }

  /// The value of a node whose leaves are all there.
  T value_of(node n) {
    if (n.level == 0) return leaf(n.place);
    T left = value_of({n.level - 1, n.place * 2});
    T right = value_of({n.level - 1, n.place * 2 + 1});
    return static_cast<T>(combine_(std::move(left), std::move(right)));
  }

  T leaf(std::uint64_t place) {
    std::uint64_t i = shape_.leaf_begin(place);
    const std::uint64_t end = shape_.leaf_end(place);
    T value = static_cast<T>(map_(i));
    while (++i < end) value = static_cast<T>(combine_(std::move(value), static_cast<T>(map_(i))));
    return value;
  }

  void go_up(node n, T value) {
    for (; !shape_.is_root(n); n = n.parent()) {
      const std::uint64_t meeting = reduction_shape::meeting(n);
      if (meeting >= shape_.leaves()) continue;  // it has no sibling
      if (!shape_.other_was_there(meeting)) {
        std::optional<T>& mine = left_behind_[n.first_leaf()];
        mine.emplace(std::move(value));
        if (shape_.come(meeting)) return;
        value = std::move(*mine);  // the other has come in between
        mine.reset();
      }
      std::optional<T>& other = left_behind_[n.sibling().first_leaf()];
      if (n.is_left())
        value = static_cast<T>(combine_(std::move(value), std::move(*other)));
      else
        value = static_cast<T>(combine_(std::move(*other), std::move(value)));
      other.reset();
    }
    result_.emplace(std::move(value));
  }

  reduction_shape shape_;
  Map& map_;
  Combine& combine_;
  std::vector<std::optional<T>> left_behind_;  // by the node's first leaf: a node and one below it never both have one
  std::optional<T> result_;
};

}  // namespace coir::detail
