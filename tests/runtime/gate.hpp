// A door that is shut until somebody opens it, for fibers and plain threads alike: what tests of the runtime block on,
// since this layer has no channel or mutex of its own. Made of the parking protocol's public pieces, so it tests those
// as well.
#pragma once

#include <chrono>

#include <coir/detail/park.hpp>

namespace runtime_test {

class gate {
 public:
  gate() = default;
  gate(const gate&) = delete;
  gate& operator=(const gate&) = delete;

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

  /// Shuts it again, for those who come later.
  void shut() {
    lock_.lock();
    open_ = false;
    lock_.unlock();
  }

  /// Blocks until it is open. Throws `cancelled`.
  void pass() { wait_until(coir::detail::no_deadline); }

  /// False if the time was over first.
  template <class Rep, class Period>
  bool pass_for(std::chrono::duration<Rep, Period> d) {
    return wait_until(coir::detail::deadline_after(d));
  }

  /// Whether somebody waits.
  bool awaited() {
    lock_.lock();
    const bool yes = !queue_.empty();
    lock_.unlock();
    return yes;
  }

 private:
  bool wait_until(coir::detail::deadline until) {
    using namespace coir::detail;
    waiter& self = this_waiter();
    lock_.lock();
    if (open_) {
      lock_.unlock();
      return true;
    }
    if (!begin_wait(self)) {
      lock_.unlock();
      throw_cancelled();
    }
    wait_node node;
    node.who = &self;
    queue_.push_back(node);
    const wake how = park(self, lock_, {"gate", this}, until);
    if (how == wake::fired) return true;
    lock_.lock();
    queue_.remove(node);
    lock_.unlock();
    if (how == wake::cancelled) throw_cancelled();
    return false;
  }

  coir::detail::spin_lock lock_;
  coir::detail::wait_queue queue_;
  bool open_ = false;
};

}  // namespace runtime_test
