// System calls of a process, by kind, in a file that other processes can map: <name>_counted servers write it
// (counted_calls.cpp), the load reads it before and after its measurement.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace bench {

struct call_counts {
  static constexpr const char* file_variable = "NET_CALLS_FILE";  ///< the environment variable with the file's name

  std::atomic<std::uint64_t> reads;
  std::atomic<std::uint64_t> writes;
  std::atomic<std::uint64_t> waits;     ///< epoll_wait and its kin
  std::atomic<std::uint64_t> controls;  ///< epoll_ctl
  std::atomic<std::uint64_t> futexes;
  std::atomic<std::uint64_t> others;  ///< made through syscall()

  std::uint64_t all() const noexcept {
    return reads.load() + writes.load() + waits.load() + controls.load() + futexes.load() + others.load();
  }
};

}  // namespace bench
