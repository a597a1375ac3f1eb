// Descriptors that can be polled, pipes, signals and processes, for fibers.
//
// Each call blocks the calling fiber, or the thread outside of fibers; in a cancelled fiber it throws `cancelled` if it
// would block. A wait here is no deadlock. Regular files are always ready: what reads a disk goes through
// coir::blocking().
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/types.h>

#include <coir/chan.hpp>
#include <coir/detail/byte_stream.hpp>
#include <coir/detail/io_cases.hpp>
#include <coir/detail/park.hpp>

namespace coir {

// ---- descriptors
// -------------------------------------------------------------------------------------------------------

/// What a descriptor is ready for; flags.
enum class readiness : std::uint8_t { none = 0, readable = 1, writable = 2, hang_up = 4, error = 8 };

constexpr readiness operator|(readiness a, readiness b) noexcept {
  return static_cast<readiness>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr readiness operator&(readiness a, readiness b) noexcept {
  return static_cast<readiness>(static_cast<unsigned>(a) & static_cast<unsigned>(b));
}

/// Any descriptor that can be polled, of whatever library. It is not owned: it must stay open until this is gone. Who
/// uses it is to put it into non-blocking mode; this does not. Move-only; any number of fibers and threads may wait.
class watched_fd {
 public:
  /// Throws std::system_error: EBADF, EPERM if it cannot be polled (a regular file).
  explicit watched_fd(int fd);
  ~watched_fd();
  watched_fd(watched_fd&& other) noexcept;
  watched_fd& operator=(watched_fd&& other) noexcept;

  /// Blocks until it is ready for something of `want`, or for hang_up or error, which always count; returns for what.
  /// As poll(2) means it: what is ready already returns at once. Throws std::system_error.
  readiness wait(readiness want) { return wait(want, detail::no_deadline); }

  /// none: the time is over.
  template <class Rep, class Period>
  readiness wait_for(readiness want, std::chrono::duration<Rep, Period> d) {
    return wait(want, detail::deadline_after(d));
  }
  template <class Clock, class Duration>
  readiness wait_until(readiness want, std::chrono::time_point<Clock, Duration> t) {
    return wait(want, detail::deadline_at(t));
  }

  int native_handle() const noexcept { return fd_; }

 private:
  readiness wait(readiness want, detail::deadline until);
  void drop() noexcept;

  int fd_ = -1;
  detail::descriptor* descriptor_ = nullptr;
  detail::descriptor::generation generation_ = 0;
};

/// As ::poll: blocks until one of the descriptors is ready, sets their `revents` and returns how many are; 0: the time
/// is over. A negative time is none, a negative fd is passed over. Throws std::system_error.
int poll(std::span<::pollfd> fds, std::chrono::milliseconds timeout);

// ---- pipes
// -----------------------------------------------------------------------------------------------------------

/// One end of a pipe: <coir/detail/byte_stream.hpp> says what it does. A write to a pipe that nobody reads is
/// std::errc::broken_pipe, and raises no signal.
class pipe_stream : public detail::byte_stream {
 public:
  pipe_stream() noexcept : byte_stream(kind::pipe) {}  ///< closed

  /// Takes over an end that somebody else has made: from here on it is in non-blocking mode, and closed by this alone.
  /// Throws std::system_error; then it is closed already.
  explicit pipe_stream(int fd);
};

/// The end to read from, and the end to write to. Throws std::system_error.
std::pair<pipe_stream, pipe_stream> make_pipe();

// ---- signals
// ---------------------------------------------------------------------------------------------------------

/// A channel of these signals, as they come to the process; from the call on they do nothing else any more (SIGTERM
/// does not end the process), also after the channel is gone. A reader that is slow misses repeats, but of each signal
/// never the first. Every channel gets every signal that it asked for. Not of signals that the program raises by an
/// error (SIGSEGV). Throws std::invalid_argument for what is no signal, SIGKILL and SIGSTOP; std::system_error.
/// Semantics: Go, os/signal.Notify.
recv_chan<int> signals(std::initializer_list<int> wanted);

// ---- processes
// -------------------------------------------------------------------------------------------------------

/// Where a standard stream of a process leads.
enum class standard_stream : std::uint8_t {
  pipe,     ///< to in(), out() or err()
  inherit,  ///< where this program's own leads
  null,     ///< nowhere: /dev/null
  to_out,   ///< err alone: where its out leads
};

struct process_options {
  standard_stream in = standard_stream::pipe;
  standard_stream out = standard_stream::pipe;
  standard_stream err = standard_stream::pipe;
  std::optional<std::string> directory;                 ///< to run in; nothing: this program's
  std::optional<std::vector<std::string>> environment;  ///< "NAME=value"; nothing: this program's
};

/// Another program, from its start to its end. in(), out() and err() may be used by fibers of their own; wait(), kill()
/// from anywhere at once. Move-only.
class process {
 public:
  /// Starts argv[0], looked for as a shell does, with these arguments, no signal blocked and none ignored. Throws
  /// std::system_error if it is not there or cannot be started, std::invalid_argument if argv is empty.
  explicit process(std::vector<std::string> argv, process_options options = {});

  /// Closes the pipes and waits for its end (without being cancelled), unless it was detached.
  ~process();
  process(process&&) noexcept;
  process& operator=(process&&) noexcept;

  /// Blocks until it has ended; returns its exit code, or 128 + the signal that ended it. Again: the same. What it
  /// writes must be read meanwhile: it waits, as always, if a pipe is full. Throws std::system_error.
  int wait();

  /// Sends it a signal. Nothing if it has ended. Throws std::system_error.
  void kill(int signal);

  /// Leaves it alone: the destructor does not wait. When it ends it stays a zombie as long as this program runs.
  void detach() noexcept;

  ::pid_t id() const noexcept;

  /// Closed, if they lead elsewhere.
  pipe_stream& in() noexcept;
  pipe_stream& out() noexcept;
  pipe_stream& err() noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace coir
