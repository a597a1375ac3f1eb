// The gate of gate.hpp, for coroutines too, made of the parking protocol's public pieces.
#pragma once

#include <coroutine>

#include <coir/async.hpp>
#include <coir/detail/park.hpp>
#include <coir/detail/stackless.hpp>

namespace runtime_test {

class async_gate {
 public:
  async_gate() = default;
  async_gate(const async_gate&) = delete;
  async_gate& operator=(const async_gate&) = delete;

  /// Lets everybody through, now and later. From any thread.
  void open() {
    lock_.lock();
    open_ = true;
    coir::detail::wait_node* woken = nullptr;
    while (coir::detail::wait_node* n = queue_.claim_front()) {
      n->next = woken;
      woken = n;
    }
    lock_.unlock();
    while (woken != nullptr) {
      coir::detail::wait_node* following = woken->next;  // the node is gone once its sleeper runs
      coir::detail::unpark(*woken->who);
      woken = following;
    }
  }

  /// Lets the first who waits through; false if nobody does.
  bool let_one_through() {
    lock_.lock();
    coir::detail::wait_node* n = queue_.claim_front();
    lock_.unlock();
    if (n == nullptr) return false;
    coir::detail::unpark(*n->who);
    return true;
  }

  bool awaited() {
    lock_.lock();
    const bool yes = !queue_.empty();
    lock_.unlock();
    return yes;
  }

  /// As a fiber. Throws `cancelled`.
  void pass() {
    using namespace coir::detail;
    waiter& self = this_waiter();
    lock_.lock();
    if (open_) return lock_.unlock();
    if (!begin_wait(self)) {
      lock_.unlock();
      throw_cancelled();
    }
    wait_node node;
    node.who = &self;
    queue_.push_back(node);
    if (coir::detail::park(self, lock_, {"gate", this}) == wake::fired) return;
    lock_.lock();
    queue_.remove(node);
    lock_.unlock();
    throw_cancelled();
  }

  /// co_await it: until the gate is open (async_one: or one is let through). Throws `cancelled`.
  auto async_pass() { return awaiter(*this, true); }
  auto async_one() { return awaiter(*this, false); }

 private:
  class awaiter : coir::detail::async_awaiter_mark {
   public:
    awaiter(async_gate& g, bool look) : gate_(g), look_(look) {}

    bool await_ready() const noexcept { return false; }
    template <coir::detail::async_coroutine Promise>
    bool await_suspend(std::coroutine_handle<Promise> where) {
      using namespace coir::detail;
      stackless& self = this_async();
      gate_.lock_.lock();
      if (look_ && gate_.open_) {
        gate_.lock_.unlock();
        return false;
      }
      if (!begin_wait(self)) {
        gate_.lock_.unlock();
        node_.index = wait_node::refused;
        return false;
      }
      node_.who = &self;
      gate_.queue_.push_back(node_);
      coir::detail::park(self, where, &gate_.lock_, {"gate", &gate_});
      return true;
    }
    void await_resume() {
      using namespace coir::detail;
      if (node_.index == wait_node::refused) throw_cancelled();
      if (node_.who == nullptr || woken(*node_.who) == wake::fired) return;
      gate_.lock_.lock();
      gate_.queue_.remove(node_);
      gate_.lock_.unlock();
      throw_cancelled();
    }

   private:
    async_gate& gate_;
    bool look_;
    coir::detail::wait_node node_;
  };

  coir::detail::spin_lock lock_;
  coir::detail::wait_queue queue_;
  bool open_ = false;
};

}  // namespace runtime_test
