// What threads count that hold no processor: foreign ones, and workers that have lost theirs. The holder of a processor
// counts there (processor.hpp), with plain stores. The sums over both are exact when nothing runs.
#pragma once

#include <atomic>
#include <cstdint>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

struct outside_counts {
  std::atomic<std::uint64_t> started{0};
  std::atomic<std::uint64_t> ended{0};
  std::atomic<std::uint64_t> parked{0};
  std::atomic<std::uint64_t> io_begun{0};
  std::atomic<std::uint64_t> io_ended{0};
  std::atomic<std::uint64_t> injected{0};
};

}  // namespace coir::detail
