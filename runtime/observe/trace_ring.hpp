// The buffer of one worker's trace events: a ring with one producer, the worker's thread, and one consumer, which holds
// the tracer's output lock (tracer.cpp). No locks, no read-modify-writes.
//
// When the ring is full, the producer closes the record with a `gap` event, for which one slot is always kept. It goes
// on as if no trace were recorded (it sets worker::trace to null) until the consumer has emptied the ring and sets it
// again. So the trace has long stretches without holes, and dropped events cost nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

struct trace_event {
  enum kind : std::uint8_t {
    run,    // `fiber` begins, or goes on, on `processor`; what ran there ended by `what`; spawned at place:line
    stop,   // what ran ended by `what`, and nothing runs
    move,   // what runs goes on, on `processor` or without one; `what` says why
    wake,   // what runs (if anything) has woken `fiber` for the `number`-th time; no time
    name,   // what runs is called `text`; no time
    steal,  // `processor` has taken `number` fibers
    gap,    // what follows was dropped
  };
  static constexpr unsigned no_processor = (1U << 11) - 1;
  static constexpr std::uint64_t all48 = (std::uint64_t{1} << 48) - 1;
  static constexpr std::size_t longest_text = 24;

  std::uint64_t ticks = 0;
  std::uint64_t fiber : 48 = 0;
  std::uint64_t processor : 11 = no_processor;
  std::uint64_t what_kind : 5 = 0;
  std::uint64_t place : 48 = 0;  // const char*: user space has no longer addresses
  std::uint64_t line : 16 = 0;
  std::uint64_t what : 48 = 0;    // const char*
  std::uint64_t number : 16 = 0;  // run: of the wake-up that it follows, if not 0

  // The text of a name event takes the place of all but the second word; it is cut if it is longer.
  void set_text(const char* s) noexcept {
    char bytes[longest_text] = {};
    for (std::size_t i = 0; i < longest_text && s[i] != '\0'; ++i) bytes[i] = s[i];
    auto* self = reinterpret_cast<char*>(this);
    std::memcpy(self, bytes, 8);
    std::memcpy(self + 16, bytes + 8, 16);
  }
  std::string text() const {
    char bytes[longest_text + 1] = {};
    const auto* self = reinterpret_cast<const char*>(this);
    std::memcpy(bytes, self, 8);
    std::memcpy(bytes + 8, self + 16, 16);
    return bytes;
  }
};
static_assert(sizeof(trace_event) == 32);

class trace_ring {
 public:
  static constexpr std::uint32_t capacity = 1U << 15;

  trace_ring() : slots_(new trace_event[capacity]) {}  // touched now, so that the producer meets no page fault

  // ---- producer
  /// Whether the next push is sure to succeed. `ticks()` gives the time, for the gap.
  template <class Ticks>
  bool reserve(Ticks&& ticks) noexcept {
    const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_seen_ < capacity - 1 && !dropping_) [[likely]]
      return true;
    head_seen_ = head_.load(std::memory_order_acquire);  // pairs with done(): the slots have been read
    if (dropping_ && tail - head_seen_ <= capacity / 2) dropping_ = false;
    if (!dropping_ && tail - head_seen_ < capacity - 1) return true;
    if (!dropping_) {
      dropping_ = true;
      trace_event e;
      e.what_kind = trace_event::gap;
      e.ticks = ticks();
      push(e);
    }
    return false;
  }

  void push(const trace_event& e) noexcept {
    const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
    slots_[tail % capacity] = e;
    tail_.store(tail + 1, std::memory_order_release);  // pairs with available()
  }

  // ---- consumer
  std::uint32_t available() const noexcept {
    return tail_.load(std::memory_order_acquire) - head_.load(std::memory_order_relaxed);
  }
  const trace_event& at(std::uint32_t i) const noexcept {
    return slots_[(head_.load(std::memory_order_relaxed) + i) % capacity];
  }
  void done(std::uint32_t n) noexcept {
    head_.store(head_.load(std::memory_order_relaxed) + n, std::memory_order_release);
  }

 private:
  const std::unique_ptr<trace_event[]> slots_;
  alignas(64) std::atomic<std::uint32_t> tail_{0};
  std::uint32_t head_seen_ = 0;
  bool dropping_ = false;
  alignas(64) std::atomic<std::uint32_t> head_{0};
};

}  // namespace coir::detail
