// The bounded local run queue of a processor: a ring of pointers. The owner pushes at the tail and pops at the head
// (oldest first) or at the tail (newest first); a thief takes the oldest half.
//
// There is no atomic read-modify-write here: a thread that touches the ring holds the processor, the owner by its
// runtime bracket, a thief by processor::try_lock (see processor.hpp). The indices are atomics only so that other
// threads may read, without holding anything, the length and whether the head moves. These are hints: they tell only
// whether a try is worth while, so relaxed is enough.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include <coir/detail/abi.hpp>
#include <coir/detail/start_record.hpp>

namespace coir::inline COIR_ABI::detail {

template <std::uint32_t Capacity>
class run_ring {
  static_assert((Capacity & (Capacity - 1)) == 0);

 public:
  static constexpr std::uint32_t capacity = Capacity;

  std::uint32_t size() const noexcept { return tail() - head(); }
  bool empty() const noexcept { return tail() == head(); }
  bool full() const noexcept { return size() == Capacity; }

  /// Counts all that ever left at the head: unchanged for a while means that the oldest has waited so long.
  std::uint32_t head() const noexcept { return head_.load(std::memory_order_relaxed); }

  /// Moves with each push.
  std::uint32_t tail() const noexcept { return tail_.load(std::memory_order_relaxed); }

  /// The ring must not be full.
  void push_back(runnable* r) noexcept {
    const std::uint32_t t = tail();
    slots_[t % Capacity] = r;
    tail_.store(t + 1, std::memory_order_relaxed);
  }

  runnable* pop_front() noexcept {
    const std::uint32_t h = head();
    if (h == tail()) return nullptr;
    head_.store(h + 1, std::memory_order_relaxed);
    return slots_[h % Capacity];
  }

  runnable* pop_back() noexcept {
    const std::uint32_t t = tail();
    if (t == head()) return nullptr;
    tail_.store(t - 1, std::memory_order_relaxed);
    // The entries that come next have often been written by another core, or so long ago that they have left the cache.
    __builtin_prefetch(slots_[(t - 1 - fetch_ahead) % Capacity], 1);
    return slots_[(t - 1) % Capacity];
  }

  /// The n-th oldest after the one that would be popped next; only if there are more than n.
  runnable* peek(std::uint32_t n) const noexcept { return slots_[(head() + n) % Capacity]; }

  /// Moves the newest half of a full ring to `out`, oldest first; returns how many.
  std::uint32_t take_newest_half(runnable** out) noexcept {
    const std::uint32_t n = size() / 2;
    const std::uint32_t t = tail() - n;
    for (std::uint32_t i = 0; i < n; ++i) out[i] = slots_[(t + i) % Capacity];
    tail_.store(t, std::memory_order_relaxed);
    return n;
  }

  /// Moves the oldest half (of one: that one) to `out`, which has room for (Capacity + 1) / 2; returns how many.
  std::uint32_t take_half(runnable** out) noexcept {
    const std::uint32_t n = (size() + 1) / 2;
    const std::uint32_t h = head();
    for (std::uint32_t i = 0; i < n; ++i) out[i] = slots_[(h + i) % Capacity];
    head_.store(h + n, std::memory_order_relaxed);
    return n;
  }

 private:
  std::atomic<std::uint32_t> head_{0};
  std::atomic<std::uint32_t> tail_{0};
  static constexpr std::uint32_t fetch_ahead = 4;
  std::array<runnable*, Capacity> slots_{};
};

}  // namespace coir::detail
