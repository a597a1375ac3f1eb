// The runtime, if there is one: see <coir/detail/hook_services.hpp>.
#pragma once

#include <coir/detail/abi.hpp>
#include <coir/detail/hook_services.hpp>

namespace coir::inline COIR_ABI::hooks {

using detail::deadline;
using detail::hook_services;
using detail::hook_wake;
using detail::io_way;
using detail::no_deadline;

/// Null: no runtime has been started in this process; or this is the child of a fork.
const hook_services* any_runtime() noexcept;

/// The runtime, if the caller is a fiber. Null: the call is the C library's.
const hook_services* fiber_runtime() noexcept;

/// The same, for a call on a descriptor. Null also if coir itself owns it: coir's own calls do not block.
const hook_services* fiber_runtime(int fd) noexcept;

}  // namespace coir::hooks
