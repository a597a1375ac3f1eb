// The stacks that a runtime's fibers run on. They are of the runtime's own size (stack_pool.hpp), with a cache in each
// processor; or of a size that spawn_options asked for (sized_stacks.hpp), with none.
//
// A stack has a control block at its upper end, which stays there as long as the runtime. Below it lies the context of
// the stack's main function, which runs one fiber after another (scheduler::stack_main). A free stack is one whose
// context is suspended between two fibers. It is in one place: a processor's cache, or one of the pools.
#pragma once

#include <cstddef>
#include <cstdint>

#include <coir/detail/abi.hpp>

#include "base/context_switch.hpp"
#include "base/internal_memory.hpp"
#include "sched/processor.hpp"
#include "stack/sized_stacks.hpp"
#include "stack/stack_pool.hpp"

namespace coir::inline COIR_ABI::detail {

struct fiber;
class scheduler;

class fiber_stacks {
 public:
  using size_class = sized_stacks::size_class;

  explicit fiber_stacks(std::size_t size) : common_(size) {}

  /// The class of stacks of at least `size` bytes. Throws std::bad_alloc.
  size_class prepare(std::size_t size) { return sized_.prepare(size); }

  /// By the holder of p: a free stack for a fiber that begins. Null: there is none.
  fiber* take(processor& p, size_class c) noexcept;

  /// A new stack for a fiber of `home`, whose context begins in `entry`. Throws std::bad_alloc, std::system_error.
  fiber& make(scheduler& home, size_class c, void (*entry)(arrival));

  /// The fiber on it has ended. By the holder of `held`; null: by a thread that has no processor.
  void put(processor* held, fiber& f) noexcept;

  std::size_t guard_size(const fiber& f) const noexcept { return pool_of(f).guard_size(); }
  std::size_t stack_size(const fiber& f) const noexcept { return pool_of(f).stack_size(); }

  /// The control block of every stack, in use or free. They are there as long as the runtime.
  internal_vector<fiber*> all();

  /// Those in the processors' caches do not count as free.
  stack_pool::counts count() noexcept;

  /// Where the monitor looks for memory that can be given back.
  stack_pool& common() noexcept { return common_; }

 private:
  friend struct debug_layout;

  const stack_pool& pool_of(const fiber& f) const noexcept;

  stack_pool common_;
  sized_stacks sized_;
};

}  // namespace coir::detail
