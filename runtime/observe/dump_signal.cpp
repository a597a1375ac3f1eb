// dump_on_signal(): the handler posts a semaphore, on which a thread waits that lives as long as the process. It is
// counted as one of the library's own, so deadlocks are found as before.
#include <coir/detail/abi.hpp>
#include <coir/dump.hpp>

#include <atomic>
#include <cerrno>
#include <sstream>
#include <string>
#include <system_error>

#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "sched/registry.hpp"

namespace coir::inline COIR_ABI {

namespace {

sem_t requests;

void request_dump(int) {
  const int before = errno;
  ::sem_post(&requests);
  errno = before;
}

void write_all(const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (n > 0)
      done += static_cast<std::size_t>(n);
    else if (errno != EINTR)
      return;
  }
}

void serve_requests() noexcept {
  for (;;) {
    if (::sem_wait(&requests) != 0) continue;
    while (::sem_trywait(&requests) == 0) {  // one list answers all that have asked meanwhile
    }
    try {
      std::ostringstream text;
      dump(text);
      write_all(text.str());
    } catch (const std::exception& e) {
      write_all(std::string("coir: no list of the fibers: ") + e.what() + '\n');
    }
  }
}

/// While an object lives, the calling thread blocks the signals that another thread can handle, so that the program's
/// handlers do not run on the new thread. (Not all signals: ThreadSanitizer's own thread is known by that.)
class without_signals {
 public:
  without_signals() {
    sigset_t all;
    ::sigemptyset(&all);
    for (const int s : {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGCHLD, SIGTSTP, SIGTTIN,
                        SIGTTOU, SIGVTALRM, SIGPROF, SIGWINCH, SIGIO})
      ::sigaddset(&all, s);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~without_signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  without_signals(const without_signals&) = delete;
  without_signals& operator=(const without_signals&) = delete;

 private:
  sigset_t before_;
};

void start_server() {
  static const bool started = [] {
    ::sem_init(&requests, 0, 0);
    const without_signals quiet;
    detail::runtime_threads::start(&serve_requests).detach();
    return true;
  }();
  static_cast<void>(started);
}

}  // namespace

void dump_on_signal(int signal) {
  start_server();
  struct sigaction action{};
  action.sa_handler = &request_dump;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  if (::sigaction(signal, &action, nullptr) != 0)
    throw std::system_error(errno, std::generic_category(), "coir: dump_on_signal");
}

}  // namespace coir
