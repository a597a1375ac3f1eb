#include <coir/detail/delayed_call.hpp>

#include <coir/detail/abi.hpp>

#include <new>

namespace coir::inline COIR_ABI::detail {

delayed_call::delayed_call() : where_("coir::after_func") {}

// Starts the call in the runtime that the closure belongs to. If that has ended, there is no call.
void delayed_call::start() {
  start_record* call = make_call();
  if (!where_.start(call)) destroy_call(call);
}

// Runs on a thread of the library. The closure is not destroyed here: drop() is still to come, or waits.
void delayed_call::fire(void* arg, std::uint64_t stamp) noexcept {
  auto& self = *static_cast<delayed_call*>(arg);
  self.lock_.lock();
  const bool counts = self.active_ && stamp == self.stamp_;
  if (counts) self.active_ = false;
  self.lock_.unlock();
  if (counts) {
    try {
      self.start();
    } catch (const std::bad_alloc&) {
      no_memory_for("the fiber of an after_func");
    }
  }
  self.expected_.fetch_sub(1, std::memory_order_release);  // the last touch; pairs with drop()
}

// Under the lock.
bool delayed_call::silence() noexcept {
  const bool was = active_;
  active_ = false;
  ++stamp_;
  if (wake_.disarm()) expected_.fetch_sub(1, std::memory_order_relaxed);
  return was;
}

bool delayed_call::stop() noexcept {
  lock_.lock();
  const bool was = silence();
  lock_.unlock();
  return was;
}

bool delayed_call::restart(deadline due) {
  lock_.lock();
  if (due != 0 && active_ && wake_.move(due, stamp_ + 1)) {
    ++stamp_;
    lock_.unlock();
    return true;
  }
  const bool was = silence();
  if (due != 0) {
    expected_.fetch_add(1, std::memory_order_relaxed);
    try {
      wake_.arm(due, &fire, this, stamp_);
    } catch (...) {
      expected_.fetch_sub(1, std::memory_order_relaxed);
      lock_.unlock();
      throw;
    }
    active_ = true;
  }
  lock_.unlock();
  if (due == 0) start();
  return was;
}

void delayed_call::drop() noexcept {
  stop();
  // This is no wait for a call on the caller's own thread: calls are made by threads of the library, not by fibers.
  for (backoff wait; expected_.load(std::memory_order_acquire) != 0;) wait();
  release();
}

}  // namespace coir::detail
