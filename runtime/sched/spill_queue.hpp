// Work that did not fit into a processor's ring, in batches. First in, first out. To hand over a batch takes a pointer
// or two under the lock and touches none of the fibers. Most of the time those are in another core's cache, or in none.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include <coir/detail/abi.hpp>
#include <coir/detail/spin_lock.hpp>
#include <coir/detail/start_record.hpp>

#include "base/internal_memory.hpp"
#include "base/sanitizer.hpp"

namespace coir::inline COIR_ABI::detail {

class spill_queue {
 public:
  static constexpr std::uint32_t batch_size = 128;

  struct batch : internal_object {
    batch* next = nullptr;
    std::uint32_t first = 0;  // the oldest
    std::uint32_t end = 0;
    runnable* items[batch_size];
  };

  spill_queue() = default;
  spill_queue(const spill_queue&) = delete;
  spill_queue& operator=(const spill_queue&) = delete;

  ~spill_queue() {
    while (batch* b = spare_) {
      spare_ = b->next;
      tsan_acquire(b);
      delete b;
    }
  }

  /// A hint; exact for what the caller itself pushed or saw pushed.
  bool empty() const noexcept { return batches_.load(std::memory_order_relaxed) == 0; }

  /// How many they are; a hint.
  std::size_t size() const noexcept { return items_.load(std::memory_order_relaxed); }

  /// An empty batch to fill; null if there is no memory.
  batch* make() noexcept {
    lock_.lock();
    batch* b = spare_;
    if (b != nullptr) spare_ = b->next;
    lock_.unlock();
    if (b == nullptr) {
      b = new (std::nothrow) batch;
      tsan_release(b);
    }
    return b;
  }

  void push(batch* b) noexcept {
    b->next = nullptr;
    lock_.lock();
    if (tail_ != nullptr)
      tail_->next = b;
    else
      head_ = b;
    tail_ = b;
    add_items(b->end - b->first);
    batches_.store(batches_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    lock_.unlock();
  }

  /// The oldest batch, or null.
  batch* pop() noexcept {
    if (empty()) return nullptr;
    lock_.lock();
    batch* b = head_;
    if (b != nullptr) {
      add_items(b->first - std::size_t{b->end});
      unlink_head();
    }
    lock_.unlock();
    return b;
  }

  /// The oldest single one, or null.
  runnable* pop_one() noexcept {
    if (empty()) return nullptr;
    lock_.lock();
    runnable* r = nullptr;
    if (batch* b = head_) {
      r = b->items[b->first++];
      add_items(std::size_t{0} - 1);
      if (b->first == b->end) {
        unlink_head();
        keep(b);
      }
    }
    lock_.unlock();
    return r;
  }

  /// How many there are. Any thread may ask.
  std::size_t count() noexcept {
    std::size_t n = 0;
    lock_.lock();
    for (const batch* b = head_; b != nullptr; b = b->next) n += b->end - b->first;
    lock_.unlock();
    return n;
  }

  /// Gives a batch back that has been emptied.
  void recycle(batch* b) noexcept {
    lock_.lock();
    keep(b);
    lock_.unlock();
  }

 private:
  void unlink_head() noexcept {
    head_ = head_->next;
    if (head_ == nullptr) tail_ = nullptr;
    batches_.store(batches_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  }

  void add_items(std::size_t n) noexcept {
    items_.store(items_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }

  void keep(batch* b) noexcept {
    b->next = spare_;
    spare_ = b;
  }

  spin_lock lock_;  // innermost
  batch* head_ = nullptr;
  batch* tail_ = nullptr;
  batch* spare_ = nullptr;
  std::atomic<std::size_t> batches_{0};
  std::atomic<std::size_t> items_{0};
};

}  // namespace coir::detail
