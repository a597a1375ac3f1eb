// The named errors of coir. Everything that coir itself throws is one of these, or the standard exception that the
// header of the function names. Thread safety: exceptions are values; what() is const.
#pragma once

#include <stdexcept>
#include <string>

namespace coir {

/// Base of every error that is coir's own.
class error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Send on a closed channel, close of a closed or nil channel (Go: a run-time panic).
class closed_channel : public error {
 public:
  using error::error;
};

/// All fibers of a runtime are blocked and nothing can ever wake one. what() lists every blocked fiber, a line each:
/// id, name, what it waits on, where it was spawned.
class deadlock : public error {
 public:
  using error::error;
};

/// Thrown by a blocking call inside a fiber that was cancelled. Let it propagate: it is how a fiber unwinds.
/// Leaving a `go` fiber by it is a normal, silent end.
class cancelled : public error {
 public:
  cancelled() : error("fiber cancelled") {}
  using error::error;
};

/// A deadline passed: thrown by timeout(), and what context::err() holds after one.
class timed_out : public error {
 public:
  timed_out() : error("timed out") {}
  using error::error;
};

/// A call that needs a fiber, or a fiber's runtime, was made outside one.
class not_in_runtime : public error {
 public:
  using error::error;
};

}  // namespace coir
