// Lists of all fibers and what each is doing, to find out why a program hangs or is slow.
//
//   coir::dump_on_signal();    // in main: from then on `kill -QUIT pid`, or Ctrl-\, lists the fibers on stderr
//   coir::dump(std::cerr);     // the same, here and now
//
// The list has every fiber of every runtime of the process: id, name, whether it runs, is queued or blocked, on what
// and for how long, where it was spawned, and its stack. Fibers that are alike (same state, wait reason, spawn site and
// stack) are one entry. A fiber that runs has no stack to show; its thread is named instead (for a debugger).
//
// The program goes on meanwhile: each fiber is copied as it is at some moment, not all at the same one.
// Semantics: Go's goroutine dump (SIGQUIT, runtime.Stack), without its stop of the world.
#pragma once

#include <csignal>
#include <iosfwd>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI {

/// Writes the list. From any thread or fiber, at any time, but not in a signal handler. Does not park; takes some 10 us
/// for each fiber. Needs 32 KiB of stack. Throws std::bad_alloc, and what the stream throws.
///
/// Times are taken from a clock that is read about once in a millisecond; for a fiber that has computed before it
/// parked, while nothing else was runnable, what it computed counts as waiting.
void dump(std::ostream& out);

/// From now on the signal makes a thread of the library write the list to stderr; the handler itself only wakes it. The
/// handler that was there before is replaced. May be called again, for other signals too. Throws std::system_error (no
/// thread; a signal that cannot be handled).
void dump_on_signal(int signal = SIGQUIT);

}  // namespace coir
