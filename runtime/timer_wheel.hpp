// Timers that are not due soon, by and by handed to a heap: a hierarchical timing wheel (Varghese and Lauck, 1987).
//
// Time is counted in slots of 131 us. The wheel has a position, and each timer lies as many levels up as the digit, to
// base 32, lies in which its slot differs first from the position:
//
//   position    ... 3 17 4
//   timer       ... 3 17 9    level 0, slot 9
//   timer       ... 3 20 0    level 1, slot 20
//
// So all of a level is due before all of the level above, and of a level the lower slots first. When the position
// moves, the slots it passes are handed out whole, and the one it enters is spread over the levels below. A timer moves
// once a level at most, mostly once or twice in all, in arrays that are read from end to end; in a heap of 100,000 each
// would move eight times, to places far apart.
//
// Invariant: no timer lies in a slot at or before the position. What a slot says is its earliest may be too early (its
// earliest was erased): who comes then opens the slot, and finds out.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "prefetch.hpp"
#include "timer_node.hpp"

namespace coir::detail {

class timer_wheel {
 public:
  /// A node's `slot` that does not lie in the wheel.
  static constexpr std::uint16_t nowhere = 0xffff;

  timer_wheel() = default;
  timer_wheel(const timer_wheel&) = delete;
  timer_wheel& operator=(const timer_wheel&) = delete;

  std::size_t size() const noexcept { return size_; }

  /// Not after the earliest that it has; no_deadline if it has none.
  deadline earliest() const noexcept { return earliest_; }

  /// False: too near for a wheel, or there is no memory.
  bool push(timer_entry e) noexcept {
    const std::int64_t t = e.when >> slot_bits;
    if (t <= position_) return false;
    const unsigned level = level_of(t);
    const unsigned at = digit(t, level);
    if (!put(number_of(level, at), e)) return false;
    used_[level] |= 1U << at;
    ++size_;
    earliest_ = std::min(earliest_, e.when);
    return true;
  }

  /// Takes out a node that lies here.
  void erase(timer_node& n) noexcept;

  /// Gives a node that lies here another time; false if it would have to lie elsewhere.
  bool move(timer_node& n, deadline when) noexcept;

  /// Moves the position to `time`, and calls out(entry) for each timer of a slot that it has reached or passed.
  template <class Out>
  void advance(deadline time, Out out) noexcept {
    const std::int64_t to = time >> slot_bits;
    if (to <= position_) return;
    const unsigned top = level_of(to);
    position_ = to;
    if (size_ == 0) return;
    for (unsigned level = 0; level < top; ++level) hand_out(level, used_[level], out);
    const unsigned entered = digit(to, top);
    hand_out(top, used_[top] & ((1U << entered) - 1), out);
    if ((used_[top] >> entered & 1U) != 0)
      take(top, entered, [&](timer_entry e) {
        if (!push(e)) out(e);
      });
    find_earliest();
  }

  /// Takes out those for which it returns true.
  template <class Drop>
  void drop_if(Drop drop) noexcept {
    for (unsigned level = 0; level < levels; ++level)
      for (std::uint32_t left = used_[level]; left != 0; left &= left - 1) {
        const unsigned number = number_of(level, static_cast<unsigned>(std::countr_zero(left)));
        const std::vector<timer_entry>& entries = (*slots_)[number].entries;
        for (std::size_t i = entries.size(); i-- > 0;)
          if (drop(entries[i].node)) remove(number, i);
      }
  }

 private:
  static constexpr unsigned slot_bits = 17;
  static constexpr unsigned digit_bits = 5;
  static constexpr unsigned slots_a_level = 1U << digit_bits;
  static constexpr unsigned levels = (63 - slot_bits + digit_bits - 1) / digit_bits;
  static constexpr std::size_t first_capacity = 8;
  static constexpr std::size_t keep_capacity = 64;  // of a slot that is all but empty
  static constexpr std::size_t fetch_ahead = 8;

  struct slot {
    std::vector<timer_entry> entries;
    deadline earliest = no_deadline;
  };

  unsigned level_of(std::int64_t t) const noexcept {
    return (static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(t ^ position_))) - 1) / digit_bits;
  }
  static unsigned digit(std::int64_t t, unsigned level) noexcept {
    return static_cast<unsigned>(t >> level * digit_bits) & (slots_a_level - 1);
  }
  static unsigned number_of(unsigned level, unsigned at) noexcept { return level * slots_a_level + at; }

  bool put(unsigned number, timer_entry e) noexcept {
    if (slots_ == nullptr || (*slots_)[number].entries.size() == (*slots_)[number].entries.capacity()) [[unlikely]] {
      if (!make_room(number)) return false;
    }
    slot& to = (*slots_)[number];
    e.node->slot = static_cast<std::uint16_t>(number);
    e.node->index = static_cast<std::uint32_t>(to.entries.size());
    to.entries.push_back(e);
    to.earliest = std::min(to.earliest, e.when);
    return true;
  }

  bool make_room(unsigned number) noexcept;
  void find_earliest() noexcept;
  void remove(unsigned number, std::size_t i) noexcept;
  void trim(std::vector<timer_entry>& entries) noexcept {
    if (entries.capacity() > keep_capacity && entries.size() < entries.capacity() / 8) [[unlikely]]
      shrink(entries);
  }
  void shrink(std::vector<timer_entry>& entries) noexcept;

  template <class Out>
  void hand_out(unsigned level, std::uint32_t which, Out& out) noexcept {
    for (; which != 0; which &= which - 1) take(level, static_cast<unsigned>(std::countr_zero(which)), out);
  }

  /// Empties a slot. Its timers may come to lie in any other.
  template <class Out>
  void take(unsigned level, unsigned at, Out out) noexcept {
    slot& from = (*slots_)[number_of(level, at)];
    used_[level] &= ~(1U << at);
    from.earliest = no_deadline;
    const std::size_t count = from.entries.size();
    size_ -= count;
    for (std::size_t i = 0; i < count; ++i) {
      if (i + fetch_ahead < count) prefetch_lines<1>(from.entries[i + fetch_ahead].node);
      out(from.entries[i]);
    }
    from.entries.clear();
    trim(from.entries);
  }

  std::int64_t position_ = 0;
  std::size_t size_ = 0;
  deadline earliest_ = no_deadline;
  std::array<std::uint32_t, levels> used_{};  // a bit for each slot that is not empty
  std::unique_ptr<std::array<slot, std::size_t{levels} * slots_a_level>> slots_;  // made when it is first needed
};

}  // namespace coir::detail
