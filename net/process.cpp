#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/io.hpp>
#include <coir/mutex.hpp>
#include <coir/runtime.hpp>
#include <coir/this_fiber.hpp>

extern char** environ;

namespace coir::inline COIR_ABI {

namespace {

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::system_category(), "coir: process: " + what);
}

/// Owns a descriptor and closes it.
class unique_fd {
 public:
  unique_fd() noexcept = default;
  explicit unique_fd(int fd) noexcept : fd_(fd) {}
  ~unique_fd() { reset(); }
  unique_fd(const unique_fd&) = delete;
  unique_fd& operator=(const unique_fd&) = delete;

  int get() const noexcept { return fd_; }
  int release() noexcept { return std::exchange(fd_, -1); }
  void reset(int fd = -1) noexcept {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

/// The child's end of one of its standard streams, and ours.
struct stream_ends {
  unique_fd theirs, ours;

  void open(standard_stream where, bool they_read) {
    if (where == standard_stream::null) {
      theirs.reset(::open("/dev/null", (they_read ? O_RDONLY : O_WRONLY) | O_CLOEXEC));
      if (theirs.get() < 0) fail(errno, "/dev/null");
    } else if (where == standard_stream::pipe) {
      int ends[2];
      if (::pipe2(ends, O_CLOEXEC) != 0) fail(errno, "pipe");
      theirs.reset(ends[they_read ? 0 : 1]);
      ours.reset(ends[they_read ? 1 : 0]);
    }
  }
};

class file_actions {
 public:
  file_actions() { check(::posix_spawn_file_actions_init(&actions_)); }
  ~file_actions() { ::posix_spawn_file_actions_destroy(&actions_); }
  file_actions(const file_actions&) = delete;
  file_actions& operator=(const file_actions&) = delete;

  void put(int fd, int as) { check(::posix_spawn_file_actions_adddup2(&actions_, fd, as)); }
  void enter(const std::string& directory) {
    check(::posix_spawn_file_actions_addchdir_np(&actions_, directory.c_str()));
  }
  const ::posix_spawn_file_actions_t* get() const noexcept { return &actions_; }

 private:
  static void check(int error) {
    if (error != 0) fail(error, "posix_spawn");
  }
  ::posix_spawn_file_actions_t actions_;
};

/// Attributes of a child with no signal blocked and none ignored.
class clean_signals {
 public:
  clean_signals() {
    ::posix_spawnattr_init(&attributes_);
    ::sigset_t signals;
    ::sigemptyset(&signals);
    ::posix_spawnattr_setsigmask(&attributes_, &signals);
    ::sigfillset(&signals);
    ::posix_spawnattr_setsigdefault(&attributes_, &signals);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~clean_signals() { ::posix_spawnattr_destroy(&attributes_); }
  clean_signals(const clean_signals&) = delete;
  clean_signals& operator=(const clean_signals&) = delete;
  const ::posix_spawnattr_t* get() const noexcept { return &attributes_; }

 private:
  ::posix_spawnattr_t attributes_;
};

std::vector<char*> pointers(std::vector<std::string>& of) {
  std::vector<char*> all;
  for (std::string& each : of) {
    if (each.find('\0') != each.npos)
      throw std::invalid_argument("coir: process: a zero byte in an argument or a variable");
    all.push_back(each.data());
  }
  all.push_back(nullptr);
  return all;
}

}  // namespace

struct process::state {
  ::pid_t id = 0;
  unique_fd handle;                // a pidfd; -1: the kernel has none
  std::optional<watched_fd> ends;  // watches the pidfd; readable once the process has ended
  mutex waiting;
  std::optional<int> code;  // under `waiting`
  std::atomic<bool> ended{false};
  bool detached = false;
  pipe_stream in, out, err;

  int wait();
  bool until_it_seems_ended();
  void reap(int flags);
};

process::process(std::vector<std::string> argv, process_options options) : state_(std::make_unique<state>()) {
  detail::refuse_in_exploration("a process");
  if (argv.empty() || argv.front().empty()) throw std::invalid_argument("coir: process: no program");
  if (options.in == standard_stream::to_out || options.out == standard_stream::to_out)
    throw std::invalid_argument("coir: process: to_out is for err alone");
  stream_ends in, out, err;
  in.open(options.in, true);
  out.open(options.out, false);
  err.open(options.err, false);
  file_actions actions;
  // The child's ends must be above 2, so that one dup2() does not overwrite another's source. They are unless this
  // program has closed its own standard streams.
  for (stream_ends* each : {&in, &out, &err}) {
    if (each->theirs.get() < 0 || each->theirs.get() > 2) continue;
    const int copy = ::fcntl(each->theirs.get(), F_DUPFD_CLOEXEC, 3);
    if (copy < 0) fail(errno, "dup");
    each->theirs.reset(copy);
  }
  if (in.theirs.get() >= 0) actions.put(in.theirs.get(), 0);
  if (out.theirs.get() >= 0) actions.put(out.theirs.get(), 1);
  if (err.theirs.get() >= 0) actions.put(err.theirs.get(), 2);
  if (options.err == standard_stream::to_out) actions.put(1, 2);
  if (options.directory) actions.enter(*options.directory);
  // Our ends are made before the child starts, since an error after that would leave the child behind.
  if (in.ours.get() >= 0) state_->in = pipe_stream(in.ours.release());
  if (out.ours.get() >= 0) state_->out = pipe_stream(out.ours.release());
  if (err.ours.get() >= 0) state_->err = pipe_stream(err.ours.release());
  if (options.directory && options.directory->find('\0') != std::string::npos)
    throw std::invalid_argument("coir: process: a zero byte in the directory");
  std::vector<char*> arguments = pointers(argv);
  std::vector<char*> environment;
  if (options.environment) environment = pointers(*options.environment);
  const clean_signals attributes;
  const int error = ::posix_spawnp(&state_->id, argv.front().c_str(), actions.get(), attributes.get(), arguments.data(),
                                   options.environment ? environment.data() : environ);
  if (error != 0) {
    state_->detached = true;  // there is no child to wait for
    fail(error, options.directory ? argv.front() + " in " + *options.directory : argv.front());
  }
  // The id is still the child's: only this object waits for it.
  state_->handle.reset(static_cast<int>(::syscall(SYS_pidfd_open, state_->id, 0)));
  if (state_->handle.get() < 0) return;
  try {
    state_->ends.emplace(state_->handle.get());
  } catch (const std::exception&) {  // wait() then blocks a thread instead
  }
}

process::process(process&&) noexcept = default;

process& process::operator=(process&& other) noexcept {
  process old(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}

process::~process() {
  if (!state_ || state_->detached) return;
  state_->in.close();
  state_->out.close();
  state_->err.close();
  const uncancellable until_its_end;
  try {
    state_->wait();
  } catch (const std::system_error&) {  // another part of the program has waited for the child: it is gone
  }
}

void process::state::reap(int flags) {
  ::siginfo_t info{};
  while (::waitid(P_PID, static_cast<::id_t>(id), &info, WEXITED | flags) != 0)
    if (errno != EINTR) fail(errno, "waitid");
  if (info.si_pid == 0) return;
  ended = true;
  code = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}

int process::state::wait() {
  const std::lock_guard locked(waiting);
  while (!code) {
    if (ends && until_it_seems_ended())
      reap(WNOHANG);
    else
      blocking([this] { reap(0); });
  }
  return *code;
}

bool process::state::until_it_seems_ended() {
  try {
    ends->wait(readiness::readable);
    return true;
  } catch (const std::system_error&) {  // the kernel cannot watch it
    return false;
  }
}

int process::wait() { return state_->wait(); }

void process::kill(int signal) {
  int error = 0;
  if (state_->handle.get() >= 0) {
    if (::syscall(SYS_pidfd_send_signal, state_->handle.get(), signal, nullptr, 0) != 0) error = errno;
  } else if (!state_->ended && ::kill(state_->id, signal) != 0) {
    error = errno;
  }
  if (error != 0 && error != ESRCH) fail(error, "kill");
}

void process::detach() noexcept { state_->detached = true; }
::pid_t process::id() const noexcept { return state_->id; }
pipe_stream& process::in() noexcept { return state_->in; }
pipe_stream& process::out() noexcept { return state_->out; }
pipe_stream& process::err() noexcept { return state_->err; }

}  // namespace coir
