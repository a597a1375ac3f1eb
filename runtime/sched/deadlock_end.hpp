// A deadlock is unwound by an exception, `cancelled`, which may meet a destructor: then std::terminate() ends the
// process before anybody could catch the `deadlock` that run() was going to throw. So its report is written first.
#pragma once

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

/// From now on std::terminate(), called by a fiber that is unwound because of a deadlock, writes the deadlock's report
/// to stderr; then, and anywhere else at once, it does what it did before.
void report_deadlock_before_terminate() noexcept;

}  // namespace coir::detail
