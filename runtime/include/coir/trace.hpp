// Records what the scheduler does, in a file that Perfetto (https://ui.perfetto.dev) and chrome://tracing open. The
// file has a track for each processor. A slice on a track is a stretch of time in which a fiber ran, and tells why the
// stretch ended. An arrow leads from the fiber that woke another fiber to the place where that fiber runs. A slice
// carries the fiber's id (this_fiber::get_id(), task::id()). The slices of an async carry the async's own id, the same
// one each time that it runs.
//
//   COIR_TRACE=file ./program                      all runtimes, from the start of the first
//   coir::trace_start("file"); ...; trace_stop();  a part of the program
//
// Each thread writes its events to a buffer of its own. Another thread, which takes a small part of one core, moves
// them from there to the file. Events that do not fit into a buffer are dropped and counted. While no trace is
// recorded, the cost is too small to measure.
#pragma once

#include <cstdint>
#include <string>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI {

/// What a trace has recorded.
struct trace_summary {
  std::uint64_t recorded = 0;  ///< events in the file
  std::uint64_t dropped = 0;   ///< about how many runs of fibers are missing, as a buffer was full; the file says where
};

/// Records all runtimes of the process, including those that start later, until trace_stop(). Overwrites the file. May
/// be called from any thread or fiber. Blocks the thread while the file is opened. Not a cancellation point. Throws
/// std::system_error if the file cannot be written or no thread can be started, std::bad_alloc, and std::logic_error if
/// a trace is being recorded.
void trace_start(const std::string& path);

/// Ends the recording and completes the file. May be called from any thread or fiber. Blocks the thread until the file
/// is complete. Not a cancellation point. Throws std::logic_error if no trace is being recorded, and std::system_error
/// if not all of it could be written.
trace_summary trace_stop();

}  // namespace coir
