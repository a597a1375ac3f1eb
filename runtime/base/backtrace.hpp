// The calls that led here: for reports made in signal handlers and where the heap must be left alone.
#pragma once

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

/// Loads what write_backtrace() needs. Not from a signal handler.
void prepare_backtrace() noexcept;

/// Writes a line to stderr for each call of the calling thread, its caller's first. Async-signal-safe once it has been
/// prepared.
void write_backtrace() noexcept;

/// Whether exit() is among them; false where the C library tells no names. Not from a signal handler.
bool called_from_exit() noexcept;

}  // namespace coir::detail
