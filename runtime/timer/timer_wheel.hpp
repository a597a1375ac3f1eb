// Timers that are due within a second, if there are very many: a timing wheel of 1,024 slots of a millisecond. When the
// time reaches a slot, its timers are handed to a heap, which is then small. Each timer moves once, in arrays that are
// read from end to end. In a heap of 100,000 it would move eight times, to places far apart.
//
// Timers that are due later do not lie here.
// Rejected: a hierarchy of wheels for them. When the time reaches a slot of an upper wheel, all its timers move at
// once, however many they are, and the processor stands still meanwhile.
//
// Slots are numbered from the beginning of time. The wheel has a position, and holds timers of the 1,023 slots after
// it.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>

#include "base/internal_memory.hpp"
#include "base/prefetch.hpp"

namespace coir::inline COIR_ABI::detail {

struct timer_node;

/// An entry of the heap and of the wheel. To compare two needs no look at the nodes.
struct timer_entry {
  deadline when;
  timer_node* node;
};

class timer_wheel {
 public:
  timer_wheel() = default;
  timer_wheel(const timer_wheel&) = delete;
  timer_wheel& operator=(const timer_wheel&) = delete;

  std::size_t size() const noexcept { return size_; }

  /// The earliest deadline, or an earlier time if the earliest timer was erased. no_deadline if the wheel has none.
  deadline earliest() const noexcept { return earliest_; }

  /// False: too near or too far, or there is no memory.
  bool push(timer_entry e) noexcept;

  /// Takes out a node that lies here.
  void erase(const timer_node& n) noexcept;

  /// Moves the position to `time`, and calls out(entry) for each timer of a slot that it reaches or passes.
  template <class Out>
  void advance(deadline time, Out out) noexcept {
    const std::int64_t to = number_of(time);
    if (to <= position_) return;
    if (size_ != 0 && number_of(earliest_) <= to) {
      hand_out(to, out);
      find_earliest(to);
    }
    position_ = to;
  }

  /// Takes out those for which drop(node) returns true.
  template <class Drop>
  void drop_if(Drop drop) noexcept {
    if (size_ == 0) return;
    for (std::size_t slot = 0; slot < slots_->size(); ++slot) {
      const internal_vector<timer_entry>& entries = (*slots_)[slot];
      for (std::size_t i = entries.size(); i-- > 0;)
        if (drop(entries[i].node)) remove(slot, i);
    }
  }

 private:
  static constexpr unsigned slot_bits = 20;  // 1.05 ms
  static constexpr std::int64_t slot_count = 1024;
  static constexpr std::size_t word_bits = 64;
  static constexpr std::size_t first_capacity = 16;  // kept by an empty slot
  static constexpr std::size_t large_capacity = 256;
  static constexpr std::size_t fetch_ahead = 8;

  struct slot_array final : std::array<internal_vector<timer_entry>, slot_count>, internal_object {};

  static std::int64_t number_of(deadline t) noexcept { return t >> slot_bits; }
  static std::size_t slot_of(std::int64_t number) noexcept { return static_cast<std::size_t>(number % slot_count); }

  [[gnu::noinline]] bool make_room(std::size_t slot) noexcept;
  void remove(std::size_t slot, std::size_t i) noexcept;
  void trim(internal_vector<timer_entry>& entries) noexcept;
  void find_earliest(std::int64_t after) noexcept;
  /// The first of the slots from..until-1 that is not empty; `until` if all are.
  std::int64_t next_used(std::int64_t from, std::int64_t until) const noexcept;

  template <class Out>
  void hand_out(std::int64_t to, Out& out) noexcept {
    const std::int64_t end = std::min(to + 1, position_ + slot_count);
    for (std::int64_t n = position_ + 1; (n = next_used(n, end)) != end; ++n) {
      const std::size_t slot = slot_of(n);
      internal_vector<timer_entry>& entries = (*slots_)[slot];
      used_[slot / word_bits] &= ~(std::uint64_t{1} << slot % word_bits);
      size_ -= entries.size();
      for (std::size_t i = 0; i < entries.size(); ++i) {
        if (i + fetch_ahead < entries.size()) prefetch_lines<1>(entries[i + fetch_ahead].node);
        out(entries[i]);
      }
      entries.clear();
      trim(entries);
    }
  }

  std::int64_t position_ = 0;
  std::size_t size_ = 0;
  deadline earliest_ = no_deadline;
  std::array<std::uint64_t, slot_count / word_bits> used_{};  // a bit for each slot that is not empty
  std::unique_ptr<slot_array> slots_;                         // made when it is first needed
};

}  // namespace coir::detail
