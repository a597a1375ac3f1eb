#include <coir/detail/chan_async.hpp>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>

namespace coir::inline COIR_ABI::detail {

bool chan_awaiter::sleep(stackless& self, wait_queue* queue, void* slot, std::coroutine_handle<> where,
                         const char* what) noexcept {
  chan_core* const on = core();
  spin_lock* const lock = on != nullptr ? &on->lock : nullptr;
  if (!begin_wait(self)) {
    if (lock != nullptr) lock->unlock();
    node_.index = wait_node::refused;
    return false;
  }
  node_.who = &self;
  node_.slot = slot;
  if (queue != nullptr) queue->push_back(node_);
  park(self, where, lock, {what, on});
  return true;
}

void chan_awaiter::end(wait_queue chan_core::* queue) {
  end_await(node_);
  if (node_.who == nullptr || woken(*node_.who) == wake::fired) return;  // if it slept, the channel may be gone
  // The waiter is the coroutine's own, which has not waited on anything since; and the channel is not const.
  auto* const on = static_cast<chan_core*>(const_cast<void*>(static_cast<stackless*>(node_.who)->waits_on()));
  if (on != nullptr) {
    on->lock.lock();
    (on->*queue).remove(node_);
    on->lock.unlock();
  }
  throw_cancelled();
}

void chan_callback::sleep(wait_queue& queue, void* slot, const char* doing) noexcept {
  static_cast<void>(begin_wait(*this));  // if it is refused, sleep_callback() sees the reason, too
  node_.who = this;
  node_.slot = slot;
  queue.push_back(node_);
  sleep_callback(*this, &core()->lock, {doing, core()});
}

void chan_callback::sleep_forever(const char* doing) noexcept {
  static_cast<void>(begin_wait(*this));
  node_.who = this;
  sleep_callback(*this, nullptr, {doing});
}

bool chan_callback::end(wait_queue chan_core::* queue) noexcept {
  const core_reference mine = std::move(core_);
  if (node_.who == nullptr || woken(*this) == wake::fired) return true;
  if (chan_core* const on = mine.get()) {
    on->lock.lock();
    (on->*queue).remove(node_);
    on->lock.unlock();
  }
  return false;
}

}  // namespace coir::detail
