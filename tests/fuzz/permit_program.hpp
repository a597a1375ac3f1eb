// Sequential random programs of what hands out permits: a semaphore, or a shared_mutex, or a timed_mutex; several
// fibers and coroutines acquire, try, give up, are cancelled, and release, one step at a time. After each step
// everybody must be where the model says; at the end the permits must all be there.
#pragma once

#include <string>

#include "entropy.hpp"
#include "sequential.hpp"

namespace coir_fuzz {

/// Runs one program. Returns an empty string, or what went wrong and the steps that led there. Ends the process with
/// the same report if one hangs.
std::string run_permits(entropy choices, const program_limits& limits);

}  // namespace coir_fuzz
