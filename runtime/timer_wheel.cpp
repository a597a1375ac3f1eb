#include "timer_wheel.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "sanitizer.hpp"

namespace coir::detail {

void timer_wheel::find_earliest() noexcept {
  earliest_ = no_deadline;
  if (size_ == 0) return;
  unsigned level = 0;
  while (used_[level] == 0) ++level;
  earliest_ = (*slots_)[number_of(level, static_cast<unsigned>(std::countr_zero(used_[level])))].earliest;
}

/// For one more in that slot; false if there is no memory.
bool timer_wheel::make_room(unsigned number) noexcept {
  const tsan_section section(this);
  try {
    if (slots_ == nullptr) slots_ = std::make_unique<std::array<slot, std::size_t{levels} * slots_a_level>>();
    std::vector<timer_entry>& entries = (*slots_)[number].entries;
    entries.reserve(std::max(entries.capacity() * 2, first_capacity));
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void timer_wheel::erase(timer_node& n) noexcept { remove(n.slot, n.index); }

bool timer_wheel::move(timer_node& n, deadline when) noexcept {
  const std::int64_t t = when >> slot_bits;
  if (t <= position_) return false;
  const unsigned level = level_of(t);
  if (number_of(level, digit(t, level)) != n.slot) return false;
  slot& here = (*slots_)[n.slot];
  here.entries[n.index].when = when;
  here.earliest = std::min(here.earliest, when);
  earliest_ = std::min(earliest_, when);
  return true;
}

void timer_wheel::remove(unsigned number, std::size_t i) noexcept {
  slot& from = (*slots_)[number];
  const timer_entry last = from.entries.back();
  from.entries.pop_back();
  if (i < from.entries.size()) {
    from.entries[i] = last;
    last.node->index = static_cast<std::uint32_t>(i);
  }
  --size_;
  if (from.entries.empty()) {
    used_[number / slots_a_level] &= ~(1U << number % slots_a_level);
    from.earliest = no_deadline;
    find_earliest();
  }
  trim(from.entries);
}

/// An array that is much too large goes back to the heap.
void timer_wheel::shrink(std::vector<timer_entry>& entries) noexcept {
  const tsan_section section(this);
  try {
    std::vector<timer_entry> smaller;
    smaller.reserve(entries.size() * 2);
    smaller.assign(entries.begin(), entries.end());
    entries.swap(smaller);
  } catch (const std::bad_alloc&) {
    // it stays as it is
  }
}

}  // namespace coir::detail
