// With many fibers, a fiber's memory has usually left the cache, and its page the TLB, by the time it runs again. So it
// is prefetched.
#pragma once

#include <cstddef>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

inline constexpr std::size_t cache_line = 64;

/// Prefetches cache lines from p on, for writing. Always inlined: GCC 12 drops calls of a function that only
/// prefetches.
template <std::size_t Lines>
[[gnu::always_inline]] inline void prefetch_lines(const void* p) noexcept {
  for (std::size_t i = 0; i < Lines; ++i) __builtin_prefetch(static_cast<const char*>(p) + cache_line * i, 1);
}

}  // namespace coir::detail
