#include "sched/shared_queues.hpp"

#include <algorithm>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

namespace {

constexpr std::size_t injected_batch = 64;

static_assert(spill_queue::batch_size == processor::ring::capacity / 2);

// Without memory for a batch: the injection queue needs none.
void inject_all(injection_queue& q, runnable** items, std::uint32_t n) noexcept {
  if (n == 0) return;  // cannot be: the ring was full
  for (std::uint32_t i = 0; i < n; ++i) items[i]->next = i + 1 < n ? items[i + 1] : nullptr;
  q.push_chain(items[0], items[n - 1], n);
}

/// take(items) moves half a ring to `items`, and returns how many.
template <class Take>
void spill(spill_queue& to, injection_queue& without_memory, Take take) noexcept {
  spill_queue::batch* b = to.make();
  if (b == nullptr) {
    runnable* items[spill_queue::batch_size];
    inject_all(without_memory, items, take(items));
    return;
  }
  b->first = 0;
  b->end = take(b->items);
  to.push(b);
}

}  // namespace

void shared_queues::spill_ready(processor& p) noexcept {
  spill(spilled_ready_, injected_, [&](runnable** items) { return p.ready.take_newest_half(items); });
}

void shared_queues::spill_yielded(processor& p) noexcept {
  spill(spilled_ready_, injected_, [&](runnable** items) { return p.yielded.take_newest_half(items); });
}

void shared_queues::spill_fresh(processor& p) noexcept {
  spill(spilled_fresh_, injected_, [&](runnable** items) { return p.fresh.take_half(items); });
}

bool shared_queues::take_ready(processor& p) noexcept {
  spill_queue::batch* b = spilled_ready_.pop();
  if (b == nullptr) return false;
  for (std::uint32_t i = b->first; i < b->end; ++i) push_ready(p, b->items[i]);
  spilled_ready_.recycle(b);
  return true;
}

// In reverse: the owner takes fresh ones from the back.
runnable* shared_queues::take_fresh(processor& p) noexcept {
  spill_queue::batch* b = spilled_fresh_.pop();
  if (b == nullptr) return nullptr;
  for (std::uint32_t i = b->end; --i > b->first;) push_fresh(p, b->items[i]);
  runnable* r = b->items[b->first];
  spilled_fresh_.recycle(b);
  return r;
}

runnable* shared_queues::take_share(processor& p) noexcept {
  const std::size_t share = injected_.size() / processors_ + 1;
  runnable* r = injected_.pop(std::min(share, injected_batch));
  if (r == nullptr) return nullptr;
  // The oldest runs now; the others keep their order: fresh ones are taken from the back, so they go in reverse.
  runnable* fresh = nullptr;
  for (runnable* each = r->next; each != nullptr;) {
    runnable* following = each->next;
    if (each->has_not_started()) {
      each->next = fresh;
      fresh = each;
    } else {
      push_ready(p, each);
    }
    each = following;
  }
  while (fresh != nullptr) {
    runnable* following = fresh->next;
    push_fresh(p, fresh);
    fresh = following;
  }
  return r;
}

void shared_queues::inject_all_of(processor& p) noexcept {
  for (backoff wait; !p.try_lock();) wait();
  if (runnable* r = p.take_next()) inject(r);
  while (runnable* r = p.ready.pop_front()) inject(r);
  while (runnable* r = p.yielded.pop_front()) inject(r);
  while (runnable* r = p.fresh.pop_front()) inject(r);
  p.unlock();
}

}  // namespace coir::detail
