// Stacks of sizes other than their runtime's (spawn_options::stack_size): a pool for each class of sizes, made when it
// is first asked for. They are for the few fibers that need them, so no processor has a cache of them.
//
// A stack, once made, stays until the runtime ends, with its control block, because late timers and lists of fibers may
// still point there. When a stack is retired, the memory that its fibers have touched is given back to the system,
// except for a few stacks of each class.
//
// Thread safety: all members may be called at once. The pool of a class is published in pools_ by a compare-exchange.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <coir/detail/abi.hpp>
#include <coir/detail/spin_lock.hpp>

#include "base/internal_memory.hpp"
#include "base/sanitizer.hpp"
#include "stack/stack_pool.hpp"

namespace coir::inline COIR_ABI::detail {

class sized_stacks {
 public:
  using size_class = std::uint8_t;  // 0: the runtime's own size, for which there is no pool here

  sized_stacks() = default;
  ~sized_stacks();
  sized_stacks(const sized_stacks&) = delete;
  sized_stacks& operator=(const sized_stacks&) = delete;

  /// The least class of at least `size` bytes, which options may ask for. Throws std::bad_alloc.
  size_class prepare(std::size_t size);

  /// Of one that is prepared.
  stack_pool& pool(size_class c) const noexcept {
    stack_pool* p = pools_[c].load(std::memory_order_acquire);
    tsan_acquire(p);
    return *p;
  }

  /// Registers the control block that was made on one of these. Throws std::bad_alloc.
  void made(fiber& f);

  /// The fiber on it has ended.
  void put(fiber& f) noexcept;

  /// The control block of every one of these, in use or free.
  internal_vector<fiber*> fibers();

  stack_pool::counts count() noexcept;

 private:
  friend struct debug_layout;

  static constexpr std::size_t classes = 34;

  // release and acquire: a thread that finds a pool sees it complete.
  std::array<std::atomic<stack_pool*>, classes> pools_{};
  spin_lock lock_;  // innermost but for the pools'; guards:
  internal_vector<fiber*> fibers_;
};

}  // namespace coir::detail
