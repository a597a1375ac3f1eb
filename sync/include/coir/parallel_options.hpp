// Options for how a parallel loop is divided.
#pragma once

#include <cstddef>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI {

/// How a parallel loop divides its work.
struct parallel_options {
  /// How many bodies one fiber runs in a row. After them, other fibers may take over, and the fiber checks whether the
  /// loop has failed. 0: as many as take some 20 us, measured while the loop runs.
  std::size_t grain = 0;
};

}  // namespace coir
