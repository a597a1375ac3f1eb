// A lock and the first-come-first-served queue of waiters that it guards, with the two steps of waking. Every primitive
// of this layer that waits uses it (mutex uses only its parts, since its lock is taken in other ways too). The
// sleepers' side is that of queued_wait.hpp, for fibers, threads and coroutines alike. Not for users.
//
//   waker
//   wake_list wakes;
//   list.lock();
//   ... change the state that they wait for ...
//   list.claim_one(wakes);   // as often as there is something to grant
//   list.unlock();
//   wakes.unpark_all();      // the sleepers now own what they were given
//
// The waker writes its grants before it announces the claims, that is, before unpark_all().
// Lock order: the lock is innermost; nothing is called with it but claims.
#pragma once

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>
#include <coir/detail/queued_wait.hpp>
#include <coir/detail/spin_lock.hpp>

namespace coir::inline COIR_ABI::detail {

/// Claimed sleepers, in the order in which they were claimed. To be unparked when no lock is held.
class wake_list {
 public:
  wake_list() noexcept = default;
  wake_list(const wake_list&) = delete;
  wake_list& operator=(const wake_list&) = delete;

  /// The node is its claimer's until the unpark, so its link is free to use.
  void add(wait_node& claimed) noexcept {
    claimed.next = nullptr;
    *end_ = &claimed;
    end_ = &claimed.next;
  }

  void unpark_all() noexcept {
    wait_node* node = first_;
    first_ = nullptr;
    end_ = &first_;
    while (node != nullptr) {  // an unparked sleeper takes its node away
      wait_node* next = node->next;
      unpark(*node->who);
      node = next;
    }
  }

 private:
  wait_node* first_ = nullptr;
  wait_node** end_ = &first_;
};

class wait_list {
 public:
  constexpr wait_list() noexcept = default;
  wait_list(const wait_list&) = delete;
  wait_list& operator=(const wait_list&) = delete;

  /// For the destructor of its owner, whose name is `what`: no waiter may be queued.
  void check_unused(const char* what, const void* owner) noexcept {
    if (!queue_.empty()) [[unlikely]]
      destroyed_with_waiters(what, owner, lock_, {&queue_});
  }

  void lock() noexcept { lock_.lock(); }
  bool try_lock() noexcept { return lock_.try_lock(); }
  void unlock() noexcept { lock_.unlock(); }

  /// For the waiters here.
  wait_place place() noexcept { return {lock_, queue_}; }

  // All that follows: under the lock.

  bool empty() const noexcept { return queue_.empty(); }
  wait_node* front() const noexcept { return queue_.front(); }

  void push_back(wait_node& n) noexcept { queue_.push_back(n); }
  void remove(wait_node& n) noexcept { queue_.remove(n); }

  /// Claims the first waiter that still sleeps; null if none does.
  wait_node* claim_one(wake_list& wakes) noexcept {
    wait_node* node = queue_.claim_front();
    if (node != nullptr) wakes.add(*node);
    return node;
  }

  void claim_all(wake_list& wakes) noexcept {
    while (claim_one(wakes) != nullptr) {
    }
  }

  /// Unlinks and claims the node. False if something else has claimed its sleeper.
  [[nodiscard]] bool claim(wait_node& node, wake_list& wakes) noexcept {
    queue_.remove(node);
    if (!node.who->claim(node)) return false;
    wakes.add(node);
    return true;
  }

 private:
  spin_lock lock_;
  wait_queue queue_;
};

}  // namespace coir::detail
