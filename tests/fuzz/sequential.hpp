// Sequential random programs of channel operations: several fibers and coroutines, but one step at a time, each after
// all is still again. So the outcome of every step is known (up to select's choice among ready cases): who proceeds,
// who blocks, who is woken and with what. After each step every fiber, every len() and the number of living values must
// be as the model says.
#pragma once

#include <string>

#include "entropy.hpp"

namespace coir_fuzz {

struct program_limits {
  unsigned processors = 1;
  unsigned steps = 60;          ///< at most; a finite entropy ends a program earlier
  bool mostly_selects = false;  ///< and wide ones among them
  bool break_model = false;     ///< let the model serve waiters newest first: a difference must then be found
};

/// Runs one program. Returns an empty string, or what went wrong and the steps that led there. Ends the process with
/// the same report if a fiber hangs.
std::string run_sequential(entropy choices, const program_limits& limits);

}  // namespace coir_fuzz
