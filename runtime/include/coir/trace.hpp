// Recording what the scheduler does, for looking at: a file that Perfetto (https://ui.perfetto.dev) and
// chrome://tracing open, with a track per processor, on it a slice for each stretch that a fiber ran, an arrow from the
// fiber that woke another to where that one runs, and on each slice why it ended. A slice carries the fiber's id
// (this_fiber::get_id(), task::id()); an async's slices carry the async's own, the same in all its turns.
//
//   COIR_TRACE=file ./program                      all runtimes, from the start of the first
//   coir::trace_start("file"); ...; trace_stop();  a part of the program
//
// Events go to a buffer per thread and from there to the file, by a thread that takes a small part of one core; what
// does not fit is dropped, and counted. Off, a trace costs nothing that can be measured.
#pragma once

#include <cstdint>
#include <string>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI {

struct trace_summary {
  std::uint64_t recorded = 0;  ///< events that are in the file
  std::uint64_t dropped = 0;   ///< about how many runs of fibers are not, since a buffer was full; the file says where
};

/// Records all runtimes of the process, those to come included, until trace_stop(); overwrites the file. From any
/// thread or fiber; blocks the thread while the file is opened. Throws std::system_error (the file cannot be written,
/// no thread), std::bad_alloc, std::logic_error if a trace is being recorded.
void trace_start(const std::string& path);

/// Ends the recording and completes the file; blocks the thread until that is done. Throws std::logic_error if no trace
/// is being recorded, std::system_error if not all could be written.
trace_summary trace_stop();

}  // namespace coir
