// Random programs of after(), timer, after_func() and ticker: they are made, stopped, reset, moved, read and dropped by
// a fiber and by a plain thread, one step at a time. What fires does so in between, as it comes; so each answer is
// checked against what it may be at that time, and each call of a function is counted.
#pragma once

#include <string>

#include "entropy.hpp"
#include "sequential.hpp"

namespace coir_fuzz {

/// Runs one program. Returns an empty string, or what went wrong and the steps that led there. Ends the process with
/// the same report if one hangs.
std::string run_timers(entropy choices, const program_limits& limits);

}  // namespace coir_fuzz
