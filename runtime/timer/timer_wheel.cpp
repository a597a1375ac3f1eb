#include "timer/timer_wheel.hpp"

#include <algorithm>
#include <new>

#include <coir/detail/abi.hpp>

#include "base/sanitizer.hpp"
#include "timer/timer_heap.hpp"

namespace coir::inline COIR_ABI::detail {

bool timer_wheel::push(timer_entry e) noexcept {
  const std::int64_t number = number_of(e.when);
  if (number <= position_ || number - position_ >= slot_count) return false;
  const std::size_t slot = slot_of(number);
  if (slots_ == nullptr || (*slots_)[slot].size() == (*slots_)[slot].capacity()) {
    if (!make_room(slot)) return false;
  }
  internal_vector<timer_entry>& entries = (*slots_)[slot];
  e.node->slot = static_cast<std::uint16_t>(slot);
  e.node->index = static_cast<std::uint32_t>(entries.size());
  if (entries.size() == entries.capacity()) __builtin_unreachable();  // so that push_back() is no call
  entries.push_back(e);
  used_[slot / word_bits] |= std::uint64_t{1} << slot % word_bits;
  ++size_;
  earliest_ = std::min(earliest_, e.when);
  return true;
}

/// For one more in that slot; false if there is no memory.
bool timer_wheel::make_room(std::size_t slot) noexcept {
  const tsan_section section(this);
  try {
    if (slots_ == nullptr) slots_ = std::make_unique<slot_array>();
    internal_vector<timer_entry>& entries = (*slots_)[slot];
    // With many sleepers, some hundred timers go into each of hundreds of slots. Large steps get there soon.
    const std::size_t growth = entries.capacity() < large_capacity ? 4 : 2;
    entries.reserve(std::max(entries.capacity() * growth, first_capacity));
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void timer_wheel::erase(const timer_node& n) noexcept { remove(n.slot, n.index); }

void timer_wheel::remove(std::size_t slot, std::size_t i) noexcept {
  internal_vector<timer_entry>& entries = (*slots_)[slot];
  const timer_entry last = entries.back();
  entries.pop_back();
  if (i < entries.size()) {
    entries[i] = last;
    last.node->index = static_cast<std::uint32_t>(i);
  }
  if (--size_ == 0) earliest_ = no_deadline;
  if (!entries.empty()) return;
  used_[slot / word_bits] &= ~(std::uint64_t{1} << slot % word_bits);
  trim(entries);
}

/// Frees the array of an empty slot, if it is a large one.
void timer_wheel::trim(internal_vector<timer_entry>& entries) noexcept {
  if (entries.capacity() <= first_capacity) return;
  const tsan_section section(this);
  internal_vector<timer_entry>().swap(entries);
}

std::int64_t timer_wheel::next_used(std::int64_t from, std::int64_t until) const noexcept {
  while (from < until) {
    const std::size_t slot = slot_of(from);
    if (const std::uint64_t left = used_[slot / word_bits] >> slot % word_bits; left != 0)
      return std::min(from + std::countr_zero(left), until);
    from += static_cast<std::int64_t>(word_bits - slot % word_bits);
  }
  return until;
}

void timer_wheel::find_earliest(std::int64_t after) noexcept {
  earliest_ = no_deadline;
  if (size_ == 0) return;
  const std::int64_t number = next_used(after + 1, after + slot_count);
  for (const timer_entry& e : (*slots_)[slot_of(number)]) earliest_ = std::min(earliest_, e.when);
}

}  // namespace coir::detail
