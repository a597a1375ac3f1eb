#include "timer_heap.hpp"

#include <algorithm>
#include <new>

#include <coir/start_record.hpp>

#include "sanitizer.hpp"

namespace coir::detail {

namespace {

constexpr std::size_t arity = 4;
constexpr std::size_t shrink_from = 4096;

/// What the word of a popped node says once an owner who is cancelling it has done so; that takes it a moment.
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
  auto* n = ::new (memory) timer_node{when, 0, timer_node::state::armed, false, home, fire, arg, stamp};
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
  for (const entry& e : entries_) {
    timer_node::state seen = timer_node::state::armed;
    // release: the owner, who frees the node, sees what was done with it here.
    if (e.node->word.compare_exchange_strong(seen, timer_node::state::orphaned, std::memory_order_acq_rel)) continue;
    settled(*e.node);
    free_timer(e.node);
  }
  entries_.clear();
  dead_.store(0, std::memory_order_relaxed);
  publish();
}

void timer_heap::place(std::size_t i, entry e) noexcept {
  entries_[i] = e;
  e.node->index = static_cast<std::uint32_t>(i);
}

void timer_heap::publish() noexcept {
  earliest_.store(entries_.empty() ? no_deadline : std::max(entries_.front().when, next_burst_),
                  std::memory_order_relaxed);
  count_.store(entries_.size(), std::memory_order_relaxed);
}

void timer_heap::sift_up(std::size_t i) noexcept {
  const entry e = entries_[i];
  while (i > 0) {
    const std::size_t parent = (i - 1) / arity;
    if (entries_[parent].when <= e.when) break;
    place(i, entries_[parent]);
    i = parent;
  }
  place(i, e);
}

void timer_heap::sift_down(std::size_t i) noexcept {
  const entry e = entries_[i];
  for (;;) {
    const std::size_t first = i * arity + 1;
    if (first >= entries_.size()) break;
    const std::size_t end = std::min(first + arity, entries_.size());
    std::size_t least = first;
    for (std::size_t c = first + 1; c < end; ++c)
      if (entries_[c].when < entries_[least].when) least = c;
    if (entries_[least].when >= e.when) break;
    place(i, entries_[least]);
    i = least;
  }
  place(i, e);
}

void timer_heap::remove_at(std::size_t i) noexcept {
  const entry last = entries_.back();
  entries_.pop_back();
  if (i < entries_.size()) {
    place(i, last);
    sift_up(i);
    sift_down(last.node->index);
  }
}

void timer_heap::push(timer_node& n) {
  clean();
  if (entries_.size() == entries_.capacity()) {
    const tsan_section section(this);
    entries_.reserve(std::max(entries_.capacity() * 2, clean_from));
  }
  entries_.push_back({n.when, &n});
  sift_up(entries_.size() - 1);
  publish();
}

void timer_heap::move(timer_node& n, deadline when) noexcept {
  n.when = when;
  entries_[n.index].when = when;
  sift_up(n.index);
  sift_down(n.index);
  publish();
}

void timer_heap::erase(timer_node& n) noexcept {
  remove_at(n.index);
  free_timer(&n);
  publish();
}

/// Whether as many are due before that time as make a burst worth while.
bool timer_heap::burst_ahead(deadline before) const noexcept {
  // They lie together at the top.
  constexpr std::size_t enough = burst_gap / thick;
  std::size_t due[enough];
  std::size_t found = 0;
  const auto look_at = [&](std::size_t i) {
    if (found < enough && i < entries_.size() && entries_[i].when < before) due[found++] = i;
  };
  look_at(0);
  for (std::size_t seen = 0; seen < found; ++seen)
    for (std::size_t child = 1; child <= arity; ++child) look_at(due[seen] * arity + child);
  return found == enough;
}

// Nothing more is due.
void timer_heap::end_burst(deadline time) noexcept {
  const std::int64_t lasted = time - burst_began_;
  if (lasted < burst_gap) return;
  const deadline next = std::min(time, no_deadline - 1 - burst_gap) + burst_gap;
  next_burst_ = popped_ >= lasted / thick && burst_ahead(next) ? next : 0;
  burst_began_ = time;
  popped_ = 0;
}

due_timer timer_heap::pop_due(deadline time) noexcept {
  due_timer result;
  while (!result && !entries_.empty() && entries_.front().when <= time) {
    timer_node* n = entries_.front().node;
    remove_at(0);
    if (!entries_.empty()) __builtin_prefetch(entries_.front().node, 1);  // the next to go, most often
    const due_timer popped{n->fire, n->arg, n->stamp, n->announced};
    timer_node::state seen = timer_node::state::armed;
    // acq_rel: pairs with the owner's exchange in disarm; whoever loses frees.
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

// After a flood: the array goes back to the heap.
void timer_heap::shrink() noexcept {
  const tsan_section section(this);
  try {
    std::vector<entry> smaller;
    smaller.reserve(entries_.size() * 2 + clean_from);
    smaller.assign(entries_.begin(), entries_.end());
    entries_.swap(smaller);
  } catch (const std::bad_alloc&) {
    // it stays as it is
  }
}

void timer_heap::clean() noexcept {
  if (entries_.capacity() >= shrink_from && entries_.size() < entries_.capacity() / 8) shrink();
  if (entries_.size() < clean_from || dead_.load(std::memory_order_relaxed) * 2 < entries_.size()) return;
  std::size_t kept = 0;
  for (const entry& e : entries_) {
    if (e.node->word.load(std::memory_order_acquire) == timer_node::state::dead) {
      dead_.fetch_sub(1, std::memory_order_relaxed);
      free_timer(e.node);
    } else {
      place(kept++, e);
    }
  }
  entries_.resize(kept);
  for (std::size_t i = kept / arity + 1; i-- > 0;)
    if (i < kept) sift_down(i);
  publish();
}

}  // namespace coir::detail
