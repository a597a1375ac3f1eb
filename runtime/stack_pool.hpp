// Stacks: address space reserved in slabs, memory committed by first touch, each with a guard page below.
//
// A guard is some pages long where the stack is large enough, since a function with a large frame may step over one
// page: MADV_GUARD_INSTALL where the kernel has it (6.13), a whole slab in one call; it costs no mapping. Else
// mprotect, which costs two mappings a stack: then only as many stacks are guarded as half of vm.max_map_count allows.
// Stack tops are coloured: they start at different offsets in their page, since equally aligned ones would compete for
// the same few cache sets. For the same reason a stack is an odd number of pages: with a power of two all first pages
// would share a few sets of the TLB. A runtime's pool is the shared store behind the processors' caches
// (processor.hpp); lock_ guards everything.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <coir/spin_lock.hpp>

namespace coir::detail {

struct fiber;

class stack_pool {
 public:
  enum class guard { automatic, by_mprotect };

  struct stack {
    char* bottom;  // lowest usable byte
    char* top;     // one past the highest; page aligned less the colour
  };

  explicit stack_pool(std::size_t stack_size, guard g = guard::automatic);
  ~stack_pool();
  stack_pool(const stack_pool&) = delete;
  stack_pool& operator=(const stack_pool&) = delete;

  /// A stack that was never used. Throws std::system_error when the address space or memory is exhausted.
  stack make();

  /// Differs from one control block to the next.
  std::uint32_t incarnation() noexcept { return incarnations_.fetch_add(1, std::memory_order_relaxed); }

  /// Registers the control block made on it, for fibers().
  void made(fiber& f);

  /// Free stacks with their suspended contexts, linked by runnable::next.
  void put(fiber* first, fiber* last, std::size_t count) noexcept;
  fiber* take(std::size_t most, std::size_t& taken) noexcept;

  /// Gives the memory of up to `most` free stacks back to the system; their addresses are used again. As many as were
  /// free all the time since the last call, less the `keep` warmest. Returns how many.
  std::size_t trim(std::size_t keep, std::size_t most) noexcept;

  /// Free ones in the shared store; a hint.
  std::size_t free_count() const noexcept { return free_count_.load(std::memory_order_relaxed); }

  /// The control block of every stack that has one, in use or free.
  std::vector<fiber*> fibers();

  struct counts {
    std::size_t made;
    std::size_t free;  // in the shared store
  };
  counts count() noexcept;

  std::size_t stack_size() const noexcept { return stack_size_; }

  /// Bytes below a stack's bottom whose touch is a fault.
  std::size_t guard_size() const noexcept { return guard_size_; }
  std::size_t unguarded() const noexcept { return unguarded_; }

 private:
  friend struct debug_layout;

  void grow();
  fiber* coldest(std::size_t keep) noexcept;
  void install_guards(char* base, std::size_t count);
  bool guard_by_madvise(char* base, std::size_t count) const noexcept;
  void populate(char* base, std::size_t count) const noexcept;

  struct slab {
    char* base;
    std::size_t bytes;
  };

  const std::size_t page_;
  const std::size_t stack_size_;
  const std::size_t guard_size_;
  const guard guard_;
  spin_lock lock_;
  std::vector<slab> slabs_;
  char* next_ = nullptr;  // never used stacks of the newest slab
  std::size_t left_ = 0;
  std::size_t made_ = 0;
  std::size_t unguarded_ = 0;
  std::size_t mprotect_budget_;
  fiber* free_ = nullptr;  // the warmest first
  fiber* cold_ = nullptr;  // the rest, cut off by trim(); taken when free_ is empty
  std::atomic<std::size_t> free_count_{0};
  std::size_t free_low_ = 0;  // the least free_count_ since the last trim()
  std::atomic<std::uint32_t> incarnations_{0};
  std::vector<stack> blank_;  // given back by trim()
  std::vector<fiber*> fibers_;
  int self_ = -1;  // pidfd of this process, for process_madvise
};

}  // namespace coir::detail
