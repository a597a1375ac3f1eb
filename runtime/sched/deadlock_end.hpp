// A deadlock is unwound by an exception, `cancelled`. If that would leave a destructor, std::terminate() ends the
// process before anybody can catch the `deadlock` that run() was going to throw. So the report of the deadlock is
// written first.
#pragma once

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

/// Installs a terminate handler. If a fiber that is unwound because of a deadlock calls std::terminate(), the handler
/// writes the deadlock's report to stderr. Then, and in every other case at once, it calls the handler that it
/// replaced.
void report_deadlock_before_terminate() noexcept;

}  // namespace coir::detail
