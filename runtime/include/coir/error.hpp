// The named errors of coir. Everything that coir itself throws is one of these, or the standard exception that the
// header of the function names. Thread safety: exceptions are values; what() is const.
//
// `cancelled` is different: it is not a std::exception. A loop that logs and swallows every std::exception must not
// keep a cancelled fiber alive. Code that catches everything, by catch (...), has to rethrow it.
#pragma once

#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <coir/detail/abi.hpp>
#include <coir/detail/requirements.hpp>

namespace coir::inline COIR_ABI {

/// Base of every error that is coir's own.
class error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A send to a closed channel, or a close of a closed or nil channel (in Go: a run-time panic).
class closed_channel : public error {
 public:
  using error::error;
};

/// All fibers of a runtime are blocked, and nothing can ever wake one of them. what() has a line for each blocked
/// fiber: its id, its name, what it waits on, and where it was spawned.
class deadlock : public error {
 public:
  using error::error;
};

/// A blocking call throws it, and only in a fiber that was cancelled: by its task, group or runtime, by an expired
/// timeout, or by the unwinding of a deadlock. So the fiber that catches it is the one that was cancelled. Let it
/// propagate: it unwinds the fiber. A `go` fiber that it leaves ends normally and in silence. A program may throw it
/// itself, to end the fiber that it is in (Go: runtime.Goexit).
class cancelled {
 public:
  const char* what() const noexcept { return "fiber cancelled"; }  ///< a text for reports
};

/// Thrown by task::get(), run() and other calls that wait for a fiber, such as task_group::wait(), if the fiber ended
/// by its cancellation.
class task_cancelled : public error {
 public:
  task_cancelled() : error("task cancelled") {}
  using error::error;
};

/// What context::err() holds after cancel().
class context_cancelled : public error {
 public:
  context_cancelled() : error("context cancelled") {}
  using error::error;
};

/// A deadline has passed. Thrown by timeout(); also what context::err() holds then.
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

/// Every function of a race() has failed. what() says why, in short.
class race_failed : public error {
 public:
  /// For race(): `exceptions` is what the functions threw, in the order of the arguments.
  explicit race_failed(std::vector<std::exception_ptr> exceptions);

  /// What the functions threw, in the order of the arguments. Valid as long as this exception or a copy of it lives.
  const std::vector<std::exception_ptr>& exceptions() const noexcept { return *exceptions_; }

 private:
  std::shared_ptr<const std::vector<std::exception_ptr>> exceptions_;  // copying it throws nothing
};

}  // namespace coir
