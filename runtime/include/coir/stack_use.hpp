// How much of their stacks fibers have used, by the place where they were spawned. It helps to choose
// options::stack_size.
// It is measured only if the environment variable COIR_DEBUG contains stackuse=1 when the runtime is constructed,
// because the end of each fiber then costs a system call or two. Sizes are whole pages, and include the fiber's control
// block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI {

/// How much of their stacks the fibers of one place have used.
struct stack_use {
  std::string file;  ///< file of the spawn site
  /// Line of the spawn site.
  unsigned line = 0;
  std::uint64_t fibers = 0;  ///< how many have ended
  std::size_t most = 0;      ///< the most bytes that one of them has used
};

/// The stack use of all fibers that have ended in runtimes that measure it, the deepest first. May be called from any
/// thread.
std::vector<stack_use> stack_uses();

}  // namespace coir
