// What libcoir_lockcheck offers to the runtime, which finds it by name (dlsym): the two are separate files, and the
// library need not be there.
#pragma once

#include <cstddef>
#include <cstdint>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

/// A mutex or read-write lock of the operating system that a fiber has locked.
struct held_lock {
  static constexpr int most_calls = 8;

  const void* lock = nullptr;
  std::uint64_t fiber = 0;
  int count = 0;
  void* calls[most_calls] = {};  // that led to the locking, the innermost first
};

struct lock_table {
  static constexpr std::uint32_t current_version = 1;

  std::uint32_t version;

  /// From now on notes what fibers lock. `fiber_here` tells the number of the fiber that the calling thread runs, 0 if
  /// it runs none. Any number of times.
  void (*watch)(std::uint64_t (*fiber_here)() noexcept) noexcept;

  /// Forgets all that is noted of the calling thread, and copies up to `room` of that fiber's locks. Returns how many.
  std::size_t (*take)(std::uint64_t fiber, held_lock* to, std::size_t room) noexcept;
};

}  // namespace coir::detail

extern "C" {
extern const coir::detail::lock_table coir_lock_table;
}
