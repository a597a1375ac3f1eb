// How much of their stacks fibers have used, by where they were spawned: to choose options::stack_size.
// Measured only while the environment variable COIR_DEBUG contains stackuse=1 when the runtime is constructed, since
// each end of a fiber then costs a system call or two. In whole pages, those of the fiber's own control block included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI {

struct stack_use {
  std::string file;  ///< of the spawn site
  unsigned line = 0;
  std::uint64_t fibers = 0;  ///< that have ended
  std::size_t most = 0;      ///< bytes that one of them has used
};

/// The stack use of all fibers that have ended in runtimes that measure it, the deepest first. From any thread.
std::vector<stack_use> stack_uses();

}  // namespace coir
