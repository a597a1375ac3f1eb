// Descriptors that can be polled, pipes, signals and processes, for fibers.
//
// Each call blocks the calling fiber, or the calling thread outside of fibers. In a cancelled fiber, a call that would
// block throws `cancelled`. A fiber that waits here does not count for a deadlock. The kernel reports regular files as
// always ready, so code that reads a disk should run in coir::blocking().
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
#include <coir/detail/abi.hpp>
#include <coir/detail/byte_stream.hpp>
#include <coir/detail/io_cases.hpp>
#include <coir/detail/park.hpp>

namespace coir::inline COIR_ABI {

// ---- descriptors

/// What a descriptor is ready for. The values are flags.
enum class readiness : std::uint8_t { none = 0, readable = 1, writable = 2, hang_up = 4, error = 8 };

/// The flags that a or b has.
constexpr readiness operator|(readiness a, readiness b) noexcept {
  return static_cast<readiness>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
/// The flags that both a and b have.
constexpr readiness operator&(readiness a, readiness b) noexcept {
  return static_cast<readiness>(static_cast<unsigned>(a) & static_cast<unsigned>(b));
}

/// A descriptor of another library, or of the program, that can be polled. A watched_fd does not own the descriptor,
/// which must stay open as long as the watched_fd lives, and does not make it non-blocking: the caller must. Move-only.
/// Any number of fibers and threads may wait on one watched_fd.
class watched_fd {
 public:
  /// Throws std::system_error: EBADF, or EPERM if the descriptor cannot be polled (a regular file).
  explicit watched_fd(int fd);
  ~watched_fd();
  /// Takes over the watching of a descriptor. A wait on `other` then throws std::system_error (EBADF).
  watched_fd(watched_fd&& other) noexcept;
  /// The same. The descriptor that this object watched before is not watched any more.
  watched_fd& operator=(watched_fd&& other) noexcept;

  /// Blocks until the descriptor is ready for one of `want`, or has a hang-up or an error, and returns all of these
  /// that hold. As with poll(2), a descriptor that is ready already makes it return at once. Throws std::system_error;
  /// the error is net::errc::closed if coir owns the descriptor and the owner has closed it.
  readiness wait(readiness want) { return wait(want, detail::no_deadline); }

  /// The same with a limit. `none`: the time has run out.
  template <class Rep, class Period>
  readiness wait_for(readiness want, std::chrono::duration<Rep, Period> d) {
    return wait(want, detail::deadline_after(d));
  }
  /// The same with the limit t.
  template <class Clock, class Duration>
  readiness wait_until(readiness want, std::chrono::time_point<Clock, Duration> t) {
    return wait(want, detail::deadline_at(t));
  }

  int native_handle() const noexcept { return fd_; }  ///< the descriptor; -1 if it was moved from

 private:
  readiness wait(readiness want, detail::deadline until);
  void drop() noexcept;

  int fd_ = -1;
  detail::descriptor* descriptor_ = nullptr;
  detail::descriptor::generation generation_ = 0;
};

/// As ::poll: blocks until one of the descriptors is ready, sets their `revents` and returns how many are ready; 0: the
/// time has run out. A negative timeout means no limit. An entry with a negative fd is ignored. A descriptor that its
/// coir owner closes meanwhile gets POLLNVAL. Throws std::system_error.
int poll(std::span<::pollfd> fds, std::chrono::milliseconds timeout);

// ---- pipes

/// One end of a pipe. <coir/detail/byte_stream.hpp> documents its operations. A write to a pipe whose read end is
/// closed fails with std::errc::broken_pipe and raises no signal.
class pipe_stream : public detail::byte_stream {
 public:
  pipe_stream() noexcept : byte_stream(kind::pipe) {}  ///< closed

  /// Takes over an open descriptor and makes it non-blocking. From here on only this object may close it. Throws
  /// std::system_error; the descriptor is closed then.
  explicit pipe_stream(int fd);

 private:
  friend std::pair<pipe_stream, pipe_stream> make_pipe();
  explicit pipe_stream(detail::io_handle end) noexcept : byte_stream(kind::pipe, std::move(end)) {}
};

/// A new pipe: its read end and its write end. Throws std::system_error.
std::pair<pipe_stream, pipe_stream> make_pipe();

// ---- signals

/// A channel that receives these signals when they come to the process.
///
/// From the call on, the signals have no other effect: SIGTERM does not end the process any more, even after the
/// channel is gone. Each channel gets every signal that it was made for. A signal that is still unread in the channel
/// is not queued again; a signal that comes after it was read is. Do not use it for signals that an error of the
/// program raises (SIGSEGV). The subscription lasts until the process ends, so call this once, not in a loop. Throws
/// std::invalid_argument for SIGKILL, SIGSTOP and numbers that are no signal, and std::system_error.
/// Semantics: Go, os/signal.Notify.
recv_chan<int> signals(std::initializer_list<int> wanted);

// ---- processes

/// Where a standard stream of a child process leads.
enum class standard_stream : std::uint8_t {
  pipe,     ///< to in(), out() or err()
  inherit,  ///< to the same place as this program's own stream
  null,     ///< to /dev/null
  to_out,   ///< for err only: to the same place as the child's out
};

/// How a process is started.
struct process_options {
  /// The child's standard input.
  standard_stream in = standard_stream::pipe;
  /// The child's standard output.
  standard_stream out = standard_stream::pipe;
  /// The child's standard error.
  standard_stream err = standard_stream::pipe;
  std::optional<std::string> directory = std::nullopt;                 ///< the working directory; none: this program's
  std::optional<std::vector<std::string>> environment = std::nullopt;  ///< "NAME=value"; none: this program's
};

/// A child process, from its start to its end. Different fibers may use in(), out() and err() at the same time, and
/// wait() and kill() may be called from any fiber or thread. Move-only.
class process {
 public:
  /// Starts argv[0] with these arguments. The program is searched for in PATH, as a shell does. It starts with no
  /// signal blocked or ignored. Throws std::system_error if the program does not exist or cannot be started. Throws
  /// std::invalid_argument if argv or its first string is empty, if an argument, the directory or the environment
  /// contains a zero byte, or if `in` or `out` is to_out.
  explicit process(std::vector<std::string> argv, process_options options = {});

  /// Unless the process was detached, closes the pipes and waits for its end. Cancellation does not interrupt this
  /// wait.
  ~process();
  /// Takes over the process. The moved-from object may only be destroyed or assigned to.
  process(process&&) noexcept;
  /// The same. The process that this object stood for before is waited for, as by the destructor.
  process& operator=(process&&) noexcept;

  /// Blocks until the process has ended. Returns its exit code, or 128 + the number of the signal that ended it; later
  /// calls return the same. Some other fiber must read what the process writes, since it blocks when a pipe is full.
  /// Throws std::system_error.
  int wait();

  /// Sends a signal to the process. Does nothing if the process has ended. Throws std::system_error.
  void kill(int signal);

  /// The destructor will not wait. The process stays a zombie from its end until this program ends.
  void detach() noexcept;

  ::pid_t id() const noexcept;  ///< its number; the system may use it again once wait() has returned

  /// This program's end of the pipe to the standard input of the process. Closed if that stream leads elsewhere.
  pipe_stream& in() noexcept;
  /// The same for its standard output.
  pipe_stream& out() noexcept;
  /// The same for its standard error.
  pipe_stream& err() noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace coir
