// Lists all fibers and what each of them does, to find out why a program hangs or is slow.
//
//   coir::dump_on_signal();    // in main: from then on `kill -QUIT pid`, or Ctrl-\, lists the fibers on stderr
//   coir::dump(std::cerr);     // the same, here and now
//
// The list has every fiber of every runtime of the process: its id, its name, whether it runs, is queued or is blocked,
// on what and for how long, where it was spawned, and its stack. Fibers with the same state, wait reason, spawn site
// and stack share one entry. A running fiber has no stack to show. The list names its thread instead, for a debugger.
//
// The program goes on meanwhile. Each fiber is copied as it is at some moment, and not all fibers at the same moment.
// Semantics: Go's goroutine dump (SIGQUIT, runtime.Stack), but it does not stop the world.
#pragma once

#include <csignal>
#include <iosfwd>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI {

/// Writes the list to the stream. May be called from any thread or fiber at any time, but not from a signal handler.
/// Does not park the fiber. Takes some 10 us for each fiber. Needs 32 KiB of stack. Throws std::bad_alloc, and what the
/// stream throws.
///
/// Times come from a clock that is read about once in a millisecond. If a fiber computed before it parked, and nothing
/// else was runnable meanwhile, the time that it computed counts as waiting.
void dump(std::ostream& out);

/// From now on, the signal makes a thread of the library write the list to stderr. The signal handler itself only wakes
/// this thread. It replaces the handler that was there before. May be called again, for other signals too. Throws
/// std::system_error if no thread can be started or the signal cannot be handled.
void dump_on_signal(int signal = SIGQUIT);

}  // namespace coir
