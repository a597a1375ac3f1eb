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
  auto* n =
      ::new (memory) timer_node{when, 0, timer_wheel::nowhere, timer_node::state::armed, false, home, fire, arg, stamp};
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
  const auto abandon_node = [](timer_node* n) {
    timer_node::state seen = timer_node::state::armed;
    // release: the owner, who frees the node, sees what was done with it here.
    if (n->word.compare_exchange_strong(seen, timer_node::state::orphaned, std::memory_order_acq_rel)) return;
    settled(*n);
    free_timer(n);
  };
  for (const timer_entry& e : near_) abandon_node(e.node);
  near_.clear();
  far_.drop_if([&](timer_node* n) {
    abandon_node(n);
    return true;
  });
  dead_.store(0, std::memory_order_relaxed);
  publish();
}

void timer_heap::place(std::size_t i, timer_entry e) noexcept {
  near_[i] = e;
  e.node->index = static_cast<std::uint32_t>(i);
}

void timer_heap::publish() noexcept {
  const deadline earliest = std::min(near_.empty() ? no_deadline : near_.front().when, far_.earliest());
  earliest_.store(earliest == no_deadline ? no_deadline : std::max(earliest, next_burst_), std::memory_order_relaxed);
  count_.store(size(), std::memory_order_relaxed);
}

void timer_heap::sift_up(std::size_t i) noexcept {
  const timer_entry e = near_[i];
  while (i > 0) {
    const std::size_t parent = (i - 1) / arity;
    if (near_[parent].when <= e.when) break;
    place(i, near_[parent]);
    i = parent;
  }
  place(i, e);
}

void timer_heap::sift_down(std::size_t i) noexcept {
  const timer_entry e = near_[i];
  for (;;) {
    const std::size_t first = i * arity + 1;
    if (first >= near_.size()) break;
    const std::size_t end = std::min(first + arity, near_.size());
    std::size_t least = first;
    for (std::size_t c = first + 1; c < end; ++c)
      if (near_[c].when < near_[least].when) least = c;
    if (near_[least].when >= e.when) break;
    place(i, near_[least]);
    i = least;
  }
  place(i, e);
}

void timer_heap::remove_at(std::size_t i) noexcept {
  const timer_entry last = near_.back();
  near_.pop_back();
  if (i < near_.size()) {
    place(i, last);
    sift_up(i);
    sift_down(last.node->index);
  }
}

void timer_heap::push_near(timer_entry e) noexcept {
  e.node->slot = timer_wheel::nowhere;
  near_.push_back(e);  // never throws: there is room
  sift_up(near_.size() - 1);
}

void timer_heap::insert(timer_entry e) noexcept {
  if (!far_.push(e)) push_near(e);
}

void timer_heap::push(timer_node& n) {
  clean();
  if (size() == near_.capacity()) {
    const tsan_section section(this);
    near_.reserve(std::max(near_.capacity() * 2, clean_from));
  }
  insert({n.when, &n});
  publish();
}

void timer_heap::take_out(timer_node& n) noexcept {
  if (n.slot != timer_wheel::nowhere)
    far_.erase(n);
  else
    remove_at(n.index);
}

void timer_heap::move(timer_node& n, deadline when) noexcept {
  n.when = when;
  if (n.slot == timer_wheel::nowhere || !far_.move(n, when)) {
    take_out(n);
    insert({when, &n});
  }
  publish();
}

void timer_heap::erase(timer_node& n) noexcept {
  take_out(n);
  free_timer(&n);
  publish();
}

// Nothing more is due.
void timer_heap::end_burst(deadline time) noexcept {
  const std::int64_t lasted = time - burst_began_;
  if (lasted < burst_gap) return;
  next_burst_ = popped_ >= lasted / thick ? std::min(time, no_deadline - 1 - burst_gap) + burst_gap : 0;
  burst_began_ = time;
  popped_ = 0;
}

due_timer timer_heap::pop_due(deadline time) noexcept {
  far_.advance(time, [this](timer_entry e) { push_near(e); });
  due_timer result;
  while (!result && !near_.empty() && near_.front().when <= time) {
    timer_node* n = near_.front().node;
    remove_at(0);
    if (!near_.empty()) __builtin_prefetch(near_.front().node, 1);  // the next to go, most often
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
    std::vector<timer_entry> smaller;
    smaller.reserve(size() * 2 + clean_from);
    smaller.assign(near_.begin(), near_.end());
    near_.swap(smaller);
  } catch (const std::bad_alloc&) {
    // it stays as it is
  }
}

void timer_heap::clean() noexcept {
  if (near_.capacity() >= shrink_from && size() < near_.capacity() / 8) shrink();
  if (size() < clean_from || dead_.load(std::memory_order_relaxed) * 2 < size()) return;
  const auto drop_dead = [this](timer_node* n) {
    if (n->word.load(std::memory_order_acquire) != timer_node::state::dead) return false;
    dead_.fetch_sub(1, std::memory_order_relaxed);
    free_timer(n);
    return true;
  };
  far_.drop_if(drop_dead);
  std::size_t kept = 0;
  for (const timer_entry& e : near_)
    if (!drop_dead(e.node)) place(kept++, e);
  near_.resize(kept);
  for (std::size_t i = kept / arity + 1; i-- > 0;)
    if (i < kept) sift_down(i);
  publish();
}

}  // namespace coir::detail
