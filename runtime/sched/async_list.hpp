// The asyncs and callbacks of a runtime that have not ended. The report of a deadlock and cancel_all() go through them.
// They are spread over shards, each with a list and a lock, so that processors seldom meet at a lock. An element's
// address selects its shard, so that neighbours in memory share one: removing an element writes to its neighbours in
// the list.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include <coir/detail/abi.hpp>
#include <coir/detail/spin_lock.hpp>
#include <coir/detail/stackless.hpp>

namespace coir::inline COIR_ABI::detail {

class async_list {
 public:
  void add(stackless& s) noexcept {
    shard& in = shard_of(s);
    in.lock.lock();
    s.previous_ = nullptr;
    s.next_ = in.first;
    if (in.first != nullptr) in.first->previous_ = &s;
    in.first = &s;
    in.lock.unlock();
  }

  void remove(stackless& s) noexcept {
    shard& in = shard_of(s);
    in.lock.lock();
    (s.previous_ != nullptr ? s.previous_->next_ : in.first) = s.next_;
    if (s.next_ != nullptr) s.next_->previous_ = s.previous_;
    in.lock.unlock();
  }

  /// Calls f(stackless&) for each, under the lock of its shard, so that it does not end during the call.
  template <class F>
  void for_each(F&& f) {
    for (shard& in : shards_) {
      const std::lock_guard locked(in.lock);
      for (stackless* s = in.first; s != nullptr; s = s->next_) f(*s);
    }
  }

 private:
  struct alignas(64) shard {
    spin_lock lock;  // lock order: before the lock of a task, and so before the run queues
    stackless* first = nullptr;
  };

  shard& shard_of(const stackless& s) noexcept {
    return shards_[(reinterpret_cast<std::uintptr_t>(&s) >> 14) % shards_.size()];
  }

  std::array<shard, 16> shards_;
};

}  // namespace coir::detail
