// Concurrent random programs: fibers, coroutines and plain threads at full speed, no order of steps, so no outcome can
// be foretold. Checked is what must hold in any order: every value sent is received exactly once or still in its
// buffer, and no other; values of one sender over one channel reach any one receiver in order; no channel ever holds
// more than its capacity; after a close nothing stays blocked; a cancelled operation has neither sent nor received;
// nothing leaks.
#pragma once

#include <cstdint>
#include <string>

namespace coir_fuzz {

struct crowd_limits {
  unsigned processors = 1;
  unsigned operations = 150;  ///< of each actor
  bool lose_one = false;      ///< forget a received value on purpose: that must be found
};

/// Runs one program. Returns an empty string, or what went wrong. Ends the process with a report if something hangs.
std::string run_concurrent(std::uint64_t seed, const crowd_limits& limits);

}  // namespace coir_fuzz
