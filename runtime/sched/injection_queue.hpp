// The queue of the runnables that come from outside of a processor: what foreign threads make runnable, what a lost
// worker or a processor without a worker leaves, and what overflows a local ring when there is no memory for a batch
// (spill_queue.hpp). First in, first out, linked through runnable::next. Every processor looks here every so often,
// however busy it is.
#pragma once

#include <atomic>
#include <cstddef>

#include <coir/detail/abi.hpp>
#include <coir/detail/spin_lock.hpp>
#include <coir/detail/start_record.hpp>

namespace coir::inline COIR_ABI::detail {

class injection_queue {
 public:
  /// A hint; exact for what the caller itself pushed or saw pushed.
  std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }
  bool empty() const noexcept { return size() == 0; }

  void push(runnable* r) noexcept {
    r->next = nullptr;
    push_chain(r, r, 1);
  }

  /// first ... last, linked; last->next is null.
  void push_chain(runnable* first, runnable* last, std::size_t count) noexcept {
    lock_.lock();
    if (tail_ != nullptr)
      tail_->next = first;
    else
      head_ = first;
    tail_ = last;
    size_.store(size() + count, std::memory_order_relaxed);
    lock_.unlock();
  }

  /// Calls f(runnable&) for up to `most` of the oldest, under the lock: f must be short.
  template <class F>
  void peek(std::size_t most, F&& f) noexcept {
    lock_.lock();
    for (const runnable* r = head_; r != nullptr && most != 0; r = r->next, --most) f(*r);
    lock_.unlock();
  }

  /// Up to `most` of the oldest, as a linked list; null if there is none.
  runnable* pop(std::size_t most) noexcept {
    if (empty()) return nullptr;
    lock_.lock();
    runnable* first = head_;
    runnable* last = nullptr;
    std::size_t taken = 0;
    for (runnable* r = head_; r != nullptr && taken < most; r = r->next, ++taken) last = r;
    if (last != nullptr) {
      head_ = last->next;
      if (head_ == nullptr) tail_ = nullptr;
      last->next = nullptr;
      size_.store(size() - taken, std::memory_order_relaxed);
    }
    lock_.unlock();
    return first;
  }

 private:
  spin_lock lock_;  // innermost: nothing else is locked inside
  runnable* head_ = nullptr;
  runnable* tail_ = nullptr;
  std::atomic<std::size_t> size_{0};
};

}  // namespace coir::detail
