// The parts of a channel that are not worth inlining: making and dropping it, sleeping, closing.
#include <coir/detail/chan_core.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <new>
#include <stdexcept>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/detail/start_record.hpp>
#include <coir/error.hpp>

namespace coir::inline COIR_ABI::detail {

namespace {

// No allocation can be larger: the user's half of the address space.
constexpr std::size_t largest_allocation = sizeof(void*) == 8 ? std::size_t{1} << 47 : PTRDIFF_MAX;

// A close wakes this many waiters at a time. It releases the lock between batches, and what claiming has brought into
// the cache is still there for unpark().
constexpr std::size_t close_batch = 64;

// How many nodes ahead of the claims the waiters are fetched into the cache.
constexpr int fetch_ahead = 4;

// To follow the list is a cache miss for each node, and the next address is known only after the miss. But the stacks
// of fibers that were started one after the other lie at regular distances. So the place of a later node is guessed:
// this many times fetch_ahead nodes further on. (100 ns a waiter instead of 150; a wrong guess costs a fetch.)
constexpr std::uintptr_t guess_ahead = 2;

std::size_t bytes_of(std::size_t capacity, const element_operations& element) noexcept {
  return element.offset + capacity * element.size + element.trailer;
}

}  // namespace

chan_core* chan_core::make(std::size_t capacity, const element_operations& element) {
  const std::size_t most =
      element.size == 0 ? static_cast<std::size_t>(PTRDIFF_MAX) : (largest_allocation - element.offset) / element.size;
  if (capacity > most) throw std::length_error("make_chan: impossible capacity");
  const std::size_t bytes = bytes_of(capacity, element);
  // A core with a trailer may be dropped last by its alarm, on a thread of the library, where no operator delete of the
  // user's may run.
  void* memory = element.trailer != 0 ? allocate_record(bytes, element.alignment)
                                      : ::operator new(bytes, std::align_val_t{element.alignment});
  return ::new (memory) chan_core(capacity, element);
}

void chan_core::destroy() noexcept {
  const element_operations& element = *element_;
  if (element.dropped != nullptr && !element.dropped(this)) return;
  // A waiter must have a handle, or know that another thread has one.
  if (!receivers.empty() || !senders.empty()) [[unlikely]]
    return destroyed_with_waiters("channel", this, lock, {&receivers, &senders});
  std::byte* buffer = reinterpret_cast<std::byte*>(this) + element.offset;
  for (std::size_t left = count(); left != 0; --left) {
    element.destroy(buffer + head_ * element.size);
    head_ = wrapped(head_ + 1);
  }
  const std::size_t bytes = bytes_of(capacity_, element);
  this->~chan_core();
  if (element.trailer != 0)
    free_record(this, bytes, element.alignment);
  else
    ::operator delete(static_cast<void*>(this), std::align_val_t{element.alignment});
}

/// After a wait that did not end as fired.
void chan_core::give_up(wait_queue& queue, wait_node& node, wake how) {
  lock.lock();
  queue.remove(node);
  lock.unlock();
  if (how == wake::cancelled) throw_cancelled();
}

/// Claims up to `room` waiters of the queue, for a close.
std::size_t chan_core::claim_some(wait_queue& queue, waiter** claimed, std::size_t room) noexcept {
  // Each node and each waiter lies on a page of its own: with many of them, all the time goes into cache misses.
  wait_node* ahead = queue.front();
  for (int i = 0; i < fetch_ahead && ahead != nullptr; ++i) ahead = ahead->next;
  std::size_t n = 0;
  while (n < room) {
    if (ahead != nullptr) {
      __builtin_prefetch(ahead->who, 1);
      ahead = ahead->next;
      __builtin_prefetch(ahead, 1);
      const auto there = reinterpret_cast<std::uintptr_t>(ahead);
      const auto here = reinterpret_cast<std::uintptr_t>(queue.front()->next);
      __builtin_prefetch(reinterpret_cast<const void*>(there + guess_ahead * (there - here)), 1);
    }
    wait_node* node = queue.front();
    if (node == nullptr) break;
    queue.remove(*node);
    if (!node->who->claim(*node)) continue;
    node->ok = false;
    claimed[n++] = node->who;
  }
  return n;
}

void chan_core::close(bool kept) {
  lock.lock();
  if (closed()) {
    lock.unlock();
    throw closed_channel("close of closed channel");
  }
  closed_.store(true, std::memory_order_relaxed);
  waiter* claimed[close_batch];
  bool referenced = false;
  for (;;) {
    std::size_t n = claim_some(receivers, claimed, close_batch);
    n += claim_some(senders, claimed + n, close_batch - n);
    const bool more = n == close_batch;
    if (more && !kept && !referenced) {
      // The waiters that are woken first may drop every handle, and the closer's too if they share one, before the last
      // ones are claimed.
      add_reference();
      referenced = true;
    }
    lock.unlock();
    for (std::size_t i = 0; i < n; ++i) unpark(*claimed[i]);
    if (!more) break;
    lock.lock();
  }
  if (referenced) release();
}

void throw_send_on_closed() { throw closed_channel("send on closed channel"); }

void close_core(chan_core* core) {
  decide(operation::close, core);
  if (core == nullptr) throw closed_channel("close of nil channel");
  core->close();
}

void wait_out(const char* what, deadline until) {
  waiter& self = this_waiter();
  if (!begin_wait(self)) throw_cancelled();
  // No node, no lock: only the timer or a canceller ends this.
  if (park(self, [](void*) noexcept {}, nullptr, {what}, until) == wake::cancelled) throw_cancelled();
}

}  // namespace coir::detail
