// What the monitor asks the kernel about a worker's thread.
#pragma once

#include <cstdint>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

class worker;

/// CPU time in ns; -1 if the kernel does not tell.
std::int64_t cpu_time_of(const worker& w) noexcept;

/// Whether the thread sleeps in the kernel, and is not merely descheduled; true if that is not known.
bool sleeps_in_kernel(const worker& w) noexcept;

}  // namespace coir::detail
