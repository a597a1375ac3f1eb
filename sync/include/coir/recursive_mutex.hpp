// recursive_mutex: a mutex that its owner, a fiber or an OS thread, may lock again; as std::recursive_mutex. It is free
// when its owner has unlocked it as often as locked it.
#pragma once

#include <atomic>
#include <cstddef>
#include <stdexcept>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>
#include <coir/mutex.hpp>

namespace coir::inline COIR_ABI {

/// As std::recursive_mutex, for fibers and threads.
class recursive_mutex {
 public:
  constexpr recursive_mutex() noexcept = default;
  recursive_mutex(const recursive_mutex&) = delete;
  recursive_mutex& operator=(const recursive_mutex&) = delete;

  /// Blocks while another fiber or thread owns the mutex. Not a cancellation point; see mutex.hpp.
  void lock() {
    if (again()) return;
    mutex_.lock();
    own();
  }

  /// Never blocks.
  bool try_lock() noexcept {
    if (again()) return true;
    if (!mutex_.try_lock()) return false;
    own();
    return true;
  }

  /// Never blocks. Throws std::logic_error if the caller is not the owner.
  void unlock() {
    if (owner_.load(std::memory_order_relaxed) != &detail::this_waiter())
      throw std::logic_error("coir: unlock of a recursive_mutex by one who does not own it");
    if (--depth_ != 0) return;
    owner_.store(nullptr, std::memory_order_relaxed);
    mutex_.unlock();
  }

 private:
  bool again() noexcept {
    // relaxed: it can only equal the caller's if the caller itself wrote it.
    if (owner_.load(std::memory_order_relaxed) != &detail::this_waiter()) return false;
    ++depth_;
    return true;
  }

  void own() noexcept {
    owner_.store(&detail::this_waiter(), std::memory_order_relaxed);
    depth_ = 1;
  }

  mutex mutex_;
  std::atomic<const detail::waiter*> owner_{nullptr};
  std::size_t depth_ = 0;  // the owner's
};

}  // namespace coir
