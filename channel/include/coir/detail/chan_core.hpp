// The untyped heart of a channel, and the rules of sending and receiving, written once for the typed hot path and for
// the untyped select. Not for users.
//
// Everything is guarded by `lock`. The holder of one channel's lock takes no other. Only select takes several, in the
// order of their addresses. The atomics beside the lock may be read without it, as hints: the reader looks again under
// the lock before it acts on one.
//
// Invariants, whenever the lock is free. A *live* node is one whose waiter is not claimed yet; a queue may also hold
// dead ones, of waiters that timed out, were cancelled or were served by another case of their select, and have not
// unlinked themselves yet.
//  1. A live receiver waits only while the buffer is empty, a live sender only while it is full. Both at once are there
//     only for a select that both sends and receives, and these two never meet.
//  2. So when a receive makes room, the first live sender's value goes to the tail at once; no newcomer overtakes it.
//  3. After close() has returned no live node is queued. While it goes on, in batches, it alone wakes those left over:
//     a receive does not take from a sender that a close is about to wake.
//  4. A waiting receiver's slot is an empty std::optional<T>: the sender fills it; still empty at the wake: closed.
//     A waiting sender's slot is its T, which was moved from exactly if node.ok.
//
// A claimer wakes its waiter after unlocking. From the unlock on it touches the channel no more, and neither does the
// claimed waiter. So the last handle may be dropped as soon as the value has arrived.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>
#include <coir/detail/spin_lock.hpp>

namespace coir::inline COIR_ABI::detail {

/// The element of a chan<void>: takes no room in the buffer.
struct unit {};

/// What untyped code must know about the element type.
struct element_operations {
  std::size_t size;                                     ///< in the buffer
  std::size_t alignment;                                ///< of the allocation
  std::size_t offset;                                   ///< of the buffer from the core's address
  void (*construct)(void* place, void* from) noexcept;  ///< moves the T at `from` into a free place of the buffer
  void (*emplace)(void* slot, void* from) noexcept;     ///< moves the T at `from` into a std::optional<T>
  void (*destroy)(void* place) noexcept;                ///< a T in the buffer

  /// The object behind the buffer (tick_source.cpp): its size, and a function that is called when the last reference is
  /// dropped. By returning false the function keeps the core, with a reference of its own.
  std::size_t trailer = 0;
  bool (*dropped)(void* core) noexcept = nullptr;

  void* place(void* core, std::size_t i) const noexcept { return static_cast<std::byte*>(core) + offset + i * size; }
};

/// How an attempt under the lock went.
enum class attempt : unsigned char { done, would_block, closed };

class alignas(64) chan_core {
 public:
  /// Throws std::length_error for a capacity that no memory could hold, std::bad_alloc.
  static chan_core* make(std::size_t capacity, const element_operations& element);

  chan_core(const chan_core&) = delete;
  chan_core& operator=(const chan_core&) = delete;

  // ---- the reference count of the handles ----

  void add_reference() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  /// For a caller that has no handle but knows that the core is there: false if the last handle has been dropped.
  bool try_add_reference() noexcept {
    std::size_t seen = references_.load(std::memory_order_relaxed);
    while (seen != 0)
      if (references_.compare_exchange_weak(seen, seen + 1, std::memory_order_relaxed)) return true;
    return false;
  }
  void release() noexcept {
    // acq_rel: release for the dropper of the last reference, which acquires all other holders' last uses.
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy();
  }

  // ---- without the lock ----

  std::size_t count() const noexcept { return count_.load(std::memory_order_relaxed); }
  std::size_t capacity() const noexcept { return capacity_; }
  const element_operations& element() const noexcept { return *element_; }

  /// Whether a receive (send) would probably not block. False is exact for some instant of the call: by invariants 1
  /// and 2 one load decides it, of the count for a buffered and of the queue for an unbuffered channel; and a channel
  /// that is seen open after that load was open at it. (Acquire: keeps the loads in this order.)
  bool may_receive() const noexcept {
    return count_.load(std::memory_order_acquire) != 0 || !senders.empty() || closed_.load(std::memory_order_relaxed);
  }
  bool may_send() const noexcept {
    return count_.load(std::memory_order_acquire) < capacity_ || !receivers.empty() ||
           closed_.load(std::memory_order_relaxed);
  }

  /// Wakes all waiters. Throws closed_channel if it is closed already. `kept`: the caller makes sure that the core
  /// exists until the call is over. Otherwise the woken waiters may drop the last handle meanwhile, so close() takes a
  /// reference if it needs one.
  void close(bool kept = false);

  // ---- under the lock ----

  bool closed() const noexcept { return closed_.load(std::memory_order_relaxed); }

  /// A plain buffered send (receive) in which no other waiter is concerned: what the inlined fast path handles.
  bool can_put() const noexcept { return receivers.empty() && count() < capacity_ && !closed(); }
  bool can_take() const noexcept { return count() != 0 && senders.empty(); }

  /// The index of the place after the last value, if there is room; of the first value.
  std::size_t tail() const noexcept { return wrapped(head_ + count()); }
  std::size_t head() const noexcept { return head_; }
  void added() noexcept { count_.store(count() + 1, std::memory_order_relaxed); }
  void removed() noexcept {
    head_ = wrapped(head_ + 1);
    count_.store(count() - 1, std::memory_order_relaxed);
  }

  /// Sends the value if that is possible at once. `woken`: left alone, or set to a waiter to unpark after unlocking.
  template <class Element>
  [[gnu::always_inline]] inline attempt try_send(const Element& element, void* value, waiter*& woken) noexcept {
    if (closed()) return attempt::closed;
    if (wait_node* receiver = receivers.claim_front()) {
      element.emplace(receiver->slot, value);
      receiver->ok = true;
      woken = receiver->who;
      return attempt::done;
    }
    if (count() == capacity_) return attempt::would_block;
    element.construct(element.place(this, tail()), value);
    added();
    return attempt::done;
  }

  /// Receives into the empty std::optional<T> at `slot` if that is possible at once.
  template <class Element>
  [[gnu::always_inline]] inline attempt try_receive(const Element& element, void* slot, waiter*& woken) noexcept {
    if (count() != 0) {
      void* first = element.place(this, head_);
      element.emplace(slot, first);
      element.destroy(first);
      wait_node* const sender = closed() ? nullptr : senders.claim_front();
      if (sender == nullptr) {
        removed();
        return attempt::done;
      }
      // By invariant 2 the buffer was full: the place that is free now is the next after its last. The count stays:
      // with one place, a reader without the lock must not see an empty channel.
      element.construct(first, sender->slot);
      head_ = wrapped(head_ + 1);
      sender->ok = true;
      woken = sender->who;
      return attempt::done;
    }
    if (closed()) return attempt::closed;
    if (wait_node* sender = senders.claim_front()) {
      element.emplace(slot, sender->slot);
      sender->ok = true;
      woken = sender->who;
      return attempt::done;
    }
    return attempt::would_block;
  }

  /// Queues the node and sleeps. The lock is held at the call and not at the return. True: claimed (see node.ok);
  /// false: timed out, and the node is unlinked. Throws `cancelled`, nothing being linked.
  [[gnu::always_inline]] inline bool wait(wait_queue& queue, wait_node& node, const char* what, deadline until) {
    const wake how = park_in({lock, queue}, node, {what, this}, until);
    if (how == wake::fired) [[likely]]
      return true;  // unlinked by the claimer; the channel may be gone
    give_up(queue, node, how);
    return false;
  }

 private:
  chan_core(std::size_t capacity, const element_operations& element) noexcept
      : capacity_(capacity), element_(&element) {}
  ~chan_core() = default;

  std::size_t wrapped(std::size_t i) const noexcept { return i >= capacity_ ? i - capacity_ : i; }
  void give_up(wait_queue& queue, wait_node& node, wake how);
  std::size_t claim_some(wait_queue& queue, waiter** claimed, std::size_t room) noexcept;
  void destroy() noexcept;

 public:
  // The first cache line: all that an operation touches, except for the values.
  spin_lock lock;

 private:
  std::atomic<bool> closed_{false};
  std::atomic<std::size_t> count_{0};
  std::size_t head_ = 0;
  const std::size_t capacity_;

 public:
  wait_queue receivers;
  wait_queue senders;

 private:
  // The second: what handles and untyped code touch. The buffer follows.
  std::atomic<std::size_t> references_{1};
  const element_operations* const element_;
};

static_assert(sizeof(spin_lock) == 1 && sizeof(wait_queue) == 16, "coir: the hot fields must fill one cache line");
static_assert(sizeof(chan_core) == 128);

/// The element of a chan<T> to the rules above, resolved at compile time.
template <class T>
struct typed_element {
  static constexpr bool stored = !std::is_same_v<T, unit>;
  static constexpr std::size_t alignment = alignof(T) > alignof(chan_core) ? alignof(T) : alignof(chan_core);
  static constexpr std::size_t offset = (sizeof(chan_core) + alignof(T) - 1) / alignof(T) * alignof(T);

  static void* place(void* core, std::size_t i) noexcept {
    return static_cast<std::byte*>(core) + offset + (stored ? i * sizeof(T) : 0);
  }
  static void construct([[maybe_unused]] void* place, [[maybe_unused]] void* from) noexcept {
    if constexpr (stored) ::new (place) T(std::move(*static_cast<T*>(from)));
  }
  static void emplace(void* slot, void* from) noexcept {
    static_cast<std::optional<T>*>(slot)->emplace(std::move(*static_cast<T*>(from)));
  }
  static void destroy([[maybe_unused]] void* place) noexcept {
    if constexpr (stored) std::destroy_at(static_cast<T*>(place));
  }

  static constexpr element_operations operations{
      stored ? sizeof(T) : 0, alignment, offset, &construct, &emplace, &destroy};
};

/// A counted reference to a core, or null.
class core_reference {
 public:
  core_reference() noexcept = default;
  /// Takes over the reference that make() returned.
  explicit core_reference(chan_core* adopted) noexcept : core_(adopted) {}
  core_reference(const core_reference& other) noexcept : core_(other.core_) {
    if (core_ != nullptr) core_->add_reference();
  }
  core_reference(core_reference&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  core_reference& operator=(core_reference other) noexcept {
    std::swap(core_, other.core_);
    return *this;
  }
  ~core_reference() {
    if (core_ != nullptr) core_->release();
  }

  chan_core* get() const noexcept { return core_; }

 private:
  chan_core* core_ = nullptr;
};

[[noreturn]] void throw_send_on_closed();

/// close() of a channel that may be nil.
void close_core(chan_core* core);

/// Sleeps, on no channel, until the deadline. Throws `cancelled`.
void wait_out(const char* what, deadline until);

}  // namespace coir::detail
