// Stacks: address space reserved in slabs, memory committed by first touch, each with a guard page below.
//
// Guards: MADV_GUARD_INSTALL where the kernel has it (6.13), a whole slab in one call; it costs no mapping. Else
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

  /// Registers the control block made on it, for fibers().
  void made(fiber& f);

  /// Free stacks with their suspended contexts, linked by runnable::next.
  void put(fiber* first, fiber* last, std::size_t count) noexcept;
  fiber* take(std::size_t most, std::size_t& taken) noexcept;

  /// The control block of every stack made so far, in use or free.
  std::vector<fiber*> fibers();

  std::size_t stack_size() const noexcept { return stack_size_; }
  std::size_t unguarded() const noexcept { return unguarded_; }

 private:
  void grow();
  void install_guards(char* base, std::size_t count);
  bool guard_by_madvise(char* base, std::size_t count) const noexcept;
  void populate(char* base, std::size_t count) const noexcept;

  struct slab {
    char* base;
    std::size_t bytes;
  };

  const std::size_t page_;
  const std::size_t stack_size_;
  const guard guard_;
  spin_lock lock_;
  std::vector<slab> slabs_;
  char* next_ = nullptr;  // never used stacks of the newest slab
  std::size_t left_ = 0;
  std::size_t made_ = 0;
  std::size_t unguarded_ = 0;
  std::size_t mprotect_budget_;
  fiber* free_ = nullptr;
  std::size_t free_count_ = 0;
  std::vector<fiber*> fibers_;
  int self_ = -1;  // pidfd of this process, for process_madvise
};

}  // namespace coir::detail
