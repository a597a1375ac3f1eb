// The object behind a timer, a ticker and after(): a channel of capacity 1 with an alarm beside it. Not for users.
#pragma once

#include <cstdint>

#include <coir/detail/abi.hpp>
#include <coir/detail/chan_core.hpp>
#include <coir/detail/park.hpp>

namespace coir::inline COIR_ABI::detail {

/// A new channel of std::chrono::steady_clock::time_point that gets a tick at `due` (0: at once), and then one every
/// `period` ns unless that is 0. Throws std::bad_alloc, std::system_error (no thread, if called outside a runtime).
core_reference make_ticks(deadline due, std::int64_t period);

/// After this no tick comes, and none is left in the channel. Returns whether one was to come. May be called from
/// anywhere.
bool stop_ticks(chan_core& core) noexcept;

/// The same, and then as make_ticks(). It throws as make_ticks() does.
bool restart_ticks(chan_core& core, deadline due, std::int64_t period);

}  // namespace coir::detail
