// The calls that led here, on stderr: for reports made in signal handlers and where the heap must be left alone.
#pragma once

namespace coir::detail {

/// Loads what write_backtrace() needs. Not from a signal handler.
void prepare_backtrace() noexcept;

/// Writes a line for each call of the calling thread, its caller's first. Async-signal-safe once it has been prepared.
void write_backtrace() noexcept;

}  // namespace coir::detail
