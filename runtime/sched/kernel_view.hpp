// What the monitor asks the kernel about a worker's thread.
#pragma once

#include <cstdint>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

class worker;

/// CPU time in ns; -1 if the kernel does not tell.
std::int64_t cpu_time_of(const worker& w) noexcept;

enum class thread_state : std::uint8_t {
  runnable,         // it runs, or waits for a CPU
  uninterruptible,  // it waits for a disk; or for the map of the process's memory, as page faults do
  sleeping          // it waits for anything else, or is not known
};
thread_state state_of(const worker& w) noexcept;

}  // namespace coir::detail
