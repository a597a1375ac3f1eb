// Stacks: address space reserved in slabs, memory committed by first touch, each with a guard below.
//
// A guard is 64 KiB or a page more, whatever the size of its stack, and comes in addition to it. A function with a
// large frame may touch its far end first, and would step over a smaller guard into the next stack. Where the kernel
// has MADV_GUARD_INSTALL (6.13), one call makes the guards of many stacks, and costs no mapping. Otherwise mprotect
// makes them, which costs two mappings a stack. Then only as many stacks are guarded as a quarter of vm.max_map_count
// allows (an eighth of that number).
//
// Stack tops are coloured: they start at different offsets in their page, since equally aligned ones would compete for
// the same few cache sets. For the same reason a stack and its guard are an odd number of pages: with a power of two
// all first pages would share a few sets of the TLB. A runtime's pool is the shared store behind the processors' caches
// (processor.hpp).
//
// Stacks are numbered as they are made, so nearly by address. Of the free ones, those with the least numbers are taken
// first. To begin on thousands of stacks that have left the cache is faster in the order of their addresses than in the
// random one in which fibers end (bench_machine: switch_there_and_back_cold). And a program uses only the first few
// stacks, as with last in, first out, so that the others can be given back.
//
// lock_ guards everything, and is not held while the system is asked for memory. A range of addresses belongs to one of
// these at a time: reserved_ (address space), the thread in make() that prepares it (guards), ready_, and then a stack.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <coir/detail/abi.hpp>
#include <coir/detail/spin_lock.hpp>

#include "base/internal_memory.hpp"
#include "base/number_set.hpp"
#include "base/valgrind.hpp"

namespace coir::inline COIR_ABI::detail {

struct fiber;

/// What options may ask for, in bytes.
inline constexpr std::size_t smallest_stack = 16 * 1024;
inline constexpr std::size_t largest_stack = std::size_t{1} << 30;

class stack_pool {
 public:
  enum class guard { automatic, by_mprotect };

  static constexpr std::size_t part_stacks = 64;  // so many are prepared together

  struct stack {
    char* bottom;        // lowest usable byte
    char* top;           // one past the highest; page aligned less the colour
    std::size_t number;  // how many were made before it
  };

  explicit stack_pool(std::size_t stack_size, guard g = guard::automatic);
  ~stack_pool();
  stack_pool(const stack_pool&) = delete;
  stack_pool& operator=(const stack_pool&) = delete;

  /// A stack that was never used. Throws std::system_error when the address space or memory is exhausted.
  stack make();

  /// Differs from one control block to the next.
  std::uint32_t incarnation() noexcept { return incarnations_.fetch_add(1, std::memory_order_relaxed); }

  /// Registers the control block made on it.
  void made(fiber& f) noexcept;

  /// Free stacks with their suspended contexts.
  void put(fiber* const* stacks, std::size_t count) noexcept;
  /// Up to `most`, those with the least numbers, the least last; returns how many.
  std::size_t take(fiber** stacks, std::size_t most) noexcept;

  /// How many were free all the time since the last call.
  std::size_t unused() noexcept;

  /// Gives the memory of free stacks back to the system: of up to `most` and up to `part_stacks` of them, those with
  /// the greatest numbers. `keep` free ones stay. The addresses are used again. Returns how many.
  std::size_t trim(std::size_t keep, std::size_t most) noexcept;

  /// For the owner of stacks that have no control block. Gives the memory of up to `part_stacks` of them, which must
  /// not be in use, back to the system. Their addresses are used again.
  void give_back(const stack* stacks, std::size_t count) noexcept;

  /// The stack in whose guard the address lies. Async-signal-safe.
  std::optional<stack> stack_above_guard(std::uintptr_t address) const noexcept;

  /// Free ones in the shared store; a hint.
  std::size_t free_count() const noexcept { return free_count_.load(std::memory_order_relaxed); }

  /// The control block of every stack that has one, in use or free.
  internal_vector<fiber*> fibers();

  struct counts {
    std::size_t made;
    std::size_t free;  // in the shared store
  };
  counts count() noexcept;

  /// As it was asked for, in bytes; a stack's usable part is that in whole pages, less the colour.
  std::size_t stack_size() const noexcept { return stack_size_; }

  /// Bytes below a stack's bottom whose touch is a fault.
  std::size_t guard_size() const noexcept { return guard_size_; }
  std::size_t unguarded() const noexcept { return unguarded_.load(std::memory_order_relaxed); }

 private:
  friend struct debug_layout;

  struct span {
    char* base;
    std::size_t count;  // of stacks
  };

  /// Never changed, nor taken away before the pool goes.
  struct slab : internal_object {
    slab(span of, const slab* before) noexcept : all(of), older(before) {}

    span all;
    const slab* older;
  };

  std::size_t next_slab() const noexcept;
  bool reserve_slab(std::size_t count);
  void add_slab(span added);
  char* cut(internal_vector<span>& from, std::size_t count) noexcept;
  span cut_part() noexcept;
  stack cut_stack() noexcept;
  char* top_of(char* base) const noexcept;
  void guard_by_mprotect(span part) noexcept;
  bool guard_by_madvise(span part) const noexcept;

  const std::size_t page_;
  const std::size_t stack_size_;
  const std::size_t stride_;  // from one stack to the next
  const std::size_t guard_size_;
  const guard guard_;
  spin_lock lock_;
  std::atomic<const slab*> slabs_{nullptr};
  std::size_t slab_count_ = 0;
  internal_vector<span> reserved_;         // of the slabs: address space alone
  internal_vector<span> ready_;            // guarded, never used
  std::size_t capacity_ = 0;               // stacks in all slabs
  std::size_t preparing_ = 0;              // threads that ask the system for stacks
  std::atomic<std::size_t> unguarded_{0};  // a statistic
  std::atomic<std::size_t> mprotect_budget_;
  internal_vector<fiber*> fibers_;  // by stack number; null: without a control block
  number_set free_;                 // with room for all, so that put() needs no memory
  std::atomic<std::size_t> free_count_{0};
  std::size_t free_low_ = 0;  // the least free_count_ since the last unused()
  std::atomic<std::uint32_t> incarnations_{0};
  [[no_unique_address]] valgrind_stacks registered_;
  internal_vector<stack> blank_;  // given back by trim() or give_back(); with room for all, too
  int self_ = -1;                 // pidfd of this process, for process_madvise
};

}  // namespace coir::detail
