#include "timer/timer_heap.hpp"

#include <algorithm>
#include <new>

#include <coir/detail/abi.hpp>
#include <coir/detail/start_record.hpp>

#include "base/sanitizer.hpp"

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::size_t arity = 4;
constexpr std::size_t shrink_from = 4096;

/// The word of a popped node, after an owner that is cancelling it has finished. That takes the owner a moment.
timer_node::state settled(const timer_node& n) noexcept {
  backoff wait;
  for (;;) {
    const timer_node::state s = n.word.load(std::memory_order_acquire);  // pairs with the store in alarm::disarm()
    if (s != timer_node::state::cancelling) return s;
    wait();
  }
}

}  // namespace

timer_node* make_timer(processor* home, deadline when, void (*fire)(void*, std::uint64_t) noexcept, void* arg,
                       std::uint64_t stamp) {
  void* memory = allocate_record(sizeof(timer_node), alignof(timer_node));
  auto* n = ::new (memory)
      timer_node{when, 0, timer_node::not_in_wheel, timer_node::state::armed, false, home, fire, arg, stamp};
  tsan_release(n);
  return n;
}

void free_timer(timer_node* n) noexcept {
  tsan_acquire(n);
  n->~timer_node();
  free_record(n, sizeof(timer_node), alignof(timer_node));
}

timer_heap::~timer_heap() {
  tsan_acquire(this);
  abandon();
}

void timer_heap::abandon() noexcept {
  const auto give_up = [](timer_node* n) {
    timer_node::state seen = timer_node::state::armed;
    // release: the owner frees the node, and sees what was done with it here.
    if (n->word.compare_exchange_strong(seen, timer_node::state::orphaned, std::memory_order_acq_rel)) return;
    settled(*n);
    free_timer(n);
  };
  for (const timer_entry& e : heap_) give_up(e.node);
  heap_.clear();
  wheel_.drop_if([&](timer_node* n) {
    give_up(n);
    return true;
  });
  dead_.store(0, std::memory_order_relaxed);
  publish();
}

void timer_heap::place(std::size_t i, timer_entry e) noexcept {
  heap_[i] = e;
  e.node->index = static_cast<std::uint32_t>(i);
}

void timer_heap::publish() noexcept {
  const deadline earliest = std::min(heap_.empty() ? no_deadline : heap_.front().when, wheel_.earliest());
  earliest_.store(earliest == no_deadline ? no_deadline : std::max(earliest, next_burst_), std::memory_order_relaxed);
  count_.store(size(), std::memory_order_relaxed);
}

void timer_heap::sift_up(std::size_t i) noexcept {
  const timer_entry e = heap_[i];
  while (i > 0) {
    const std::size_t parent = (i - 1) / arity;
    if (heap_[parent].when <= e.when) break;
    place(i, heap_[parent]);
    i = parent;
  }
  place(i, e);
}

void timer_heap::sift_down(std::size_t i) noexcept {
  const timer_entry e = heap_[i];
  for (;;) {
    const std::size_t first = i * arity + 1;
    if (first >= heap_.size()) break;
    const std::size_t end = std::min(first + arity, heap_.size());
    std::size_t least = first;
    for (std::size_t c = first + 1; c < end; ++c)
      if (heap_[c].when < heap_[least].when) least = c;
    if (heap_[least].when >= e.when) break;
    place(i, heap_[least]);
    i = least;
  }
  place(i, e);
}

void timer_heap::remove_at(std::size_t i) noexcept {
  const timer_entry last = heap_.back();
  heap_.pop_back();
  if (i < heap_.size()) {
    place(i, last);
    sift_up(i);
    sift_down(last.node->index);
  }
}

void timer_heap::push_heap(timer_entry e) noexcept {
  e.node->slot = timer_node::not_in_wheel;
  heap_.push_back(e);  // there is room
  sift_up(heap_.size() - 1);
}

void timer_heap::insert(timer_entry e) noexcept {
  if (heap_.size() < wheel_from || !wheel_.push(e)) push_heap(e);
}

void timer_heap::make_room() {
  const tsan_section section(this);
  heap_.reserve(std::max(heap_.capacity() * 2, clean_from));
}

void timer_heap::push(timer_node& n) {
  clean();
  if (size() == heap_.capacity()) make_room();
  insert({n.when, &n});
  publish();
}

void timer_heap::move(timer_node& n, deadline when) noexcept {
  n.when = when;
  if (n.slot != timer_node::not_in_wheel) {
    wheel_.erase(n);
    insert({when, &n});
  } else {
    heap_[n.index].when = when;
    sift_up(n.index);
    sift_down(n.index);
  }
  publish();
}

void timer_heap::erase(timer_node& n) noexcept {
  if (n.slot != timer_node::not_in_wheel)
    wheel_.erase(n);
  else
    remove_at(n.index);
  free_timer(&n);
  publish();
}

/// Whether enough timers are due before that time to make a burst worth while.
bool timer_heap::burst_ahead(deadline before) noexcept {
  advance(before);
  // They lie together at the top.
  constexpr std::size_t enough = burst_gap / thick;
  std::size_t due[enough];
  std::size_t found = 0;
  const auto look_at = [&](std::size_t i) {
    if (found < enough && i < heap_.size() && heap_[i].when < before) due[found++] = i;
  };
  look_at(0);
  for (std::size_t seen = 0; seen < found; ++seen)
    for (std::size_t child = 1; child <= arity; ++child) look_at(due[seen] * arity + child);
  return found == enough;
}

// Called when nothing more is due.
void timer_heap::end_burst(deadline time) noexcept {
  if constexpr (explorable) return;  // virtual time is exact
  const std::int64_t lasted = time - burst_began_;
  if (lasted < burst_gap) return;
  const deadline next = std::min(time, no_deadline - 1 - burst_gap) + burst_gap;
  next_burst_ = popped_ >= lasted / thick && burst_ahead(next) ? next : 0;
  burst_began_ = time;
  popped_ = 0;
}

due_timer timer_heap::pop_due(deadline time) noexcept {
  advance(time);
  due_timer result;
  while (!result && !heap_.empty() && heap_.front().when <= time) {
    timer_node* n = heap_.front().node;
    remove_at(0);
    if (!heap_.empty()) prefetch_lines<1>(heap_.front().node);  // the next to go, most often
    const due_timer popped{n->fire, n->arg, n->stamp, n->announced};
    timer_node::state seen = timer_node::state::armed;
    // acq_rel: pairs with the owner's exchange in disarm; the loser frees the node.
    if (n->word.compare_exchange_strong(seen, timer_node::state::fired, std::memory_order_acq_rel)) {
      result = popped;
      ++popped_;
    } else {
      settled(*n);
      dead_.fetch_sub(1, std::memory_order_relaxed);
      free_timer(n);
    }
  }
  if (!result) end_burst(time);
  publish();
  return result;
}

std::size_t timer_heap::count_due(deadline time) const noexcept {
  return static_cast<std::size_t>(std::count_if(heap_.begin(), heap_.end(), [time](const timer_entry& e) {
    return e.when <= time && e.node->word.load(std::memory_order_relaxed) == timer_node::state::armed;
  }));
}

due_timer timer_heap::pop_due(deadline time, std::size_t which) noexcept {
  for (const timer_entry& e : heap_) {
    if (e.when > time || e.node->word.load(std::memory_order_relaxed) != timer_node::state::armed || which-- != 0)
      continue;
    timer_node* const n = e.node;
    remove_at(n->index);
    const due_timer popped{n->fire, n->arg, n->stamp, n->announced};
    n->word.store(timer_node::state::fired, std::memory_order_release);
    publish();
    return popped;
  }
  return {};
}

// After a flood of timers: gives the array's memory back.
void timer_heap::shrink() noexcept {
  const tsan_section section(this);
  try {
    internal_vector<timer_entry> smaller;
    smaller.reserve(size() * 2 + clean_from);
    smaller.assign(heap_.begin(), heap_.end());
    heap_.swap(smaller);
  } catch (const std::bad_alloc&) {
    // it stays as it is
  }
}

void timer_heap::clean() noexcept {
  if (heap_.capacity() >= shrink_from && size() < heap_.capacity() / 8) shrink();
  if (size() < clean_from || dead_.load(std::memory_order_relaxed) * 2 < size()) return;
  const auto drop_dead = [this](timer_node* n) {
    if (n->word.load(std::memory_order_acquire) != timer_node::state::dead) return false;
    dead_.fetch_sub(1, std::memory_order_relaxed);
    free_timer(n);
    return true;
  };
  wheel_.drop_if(drop_dead);
  std::size_t kept = 0;
  for (const timer_entry& e : heap_)
    if (!drop_dead(e.node)) place(kept++, e);
  heap_.resize(kept);
  for (std::size_t i = kept / arity + 1; i-- > 0;)
    if (i < kept) sift_down(i);
  publish();
}

}  // namespace coir::detail
