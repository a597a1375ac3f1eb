// The kernel's futex, on CLOCK_MONOTONIC deadlines. Spurious returns are allowed: callers loop on their own condition.
// Signals do not end a wait early as far as callers can tell, since they loop.
#pragma once

#include <atomic>
#include <cstdint>

#include <coir/detail/abi.hpp>
#include <coir/detail/park.hpp>

namespace coir::inline COIR_ABI::detail {

/// Sleeps while `word` is `expected`, until woken or the deadline has passed.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, deadline until = no_deadline) noexcept;

/// Wakes up to `count` sleepers. The word need not exist any more: an address without sleepers is harmless.
void futex_wake(std::atomic<std::uint32_t>& word, int count = 1) noexcept;

}  // namespace coir::detail
