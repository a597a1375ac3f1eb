// Signals as values. A signal handler may call almost nothing, so it only marks the signal and writes a byte to a pipe.
// A thread reads the pipe and sends the marked signals to the channels. Deadlock detection does not know this thread,
// and so reports no deadlock while the process waits for signals: one may always come.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#ifdef COIR_THREAD_SANITIZER
#include <dlfcn.h>
#endif
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/io.hpp>

namespace coir::inline COIR_ABI {

namespace {

constexpr int signal_count = 65;  // 1 to 64

// The state that the handler uses.
std::array<std::atomic<bool>, signal_count> come;
std::atomic<int> bell{-1};

extern "C" void coir_note_signal(int signal) {
  const int error = errno;
  come[static_cast<std::size_t>(signal)].store(true, std::memory_order_release);
  const char byte = 0;
  // If the pipe is full, the thread is going to wake up anyway and sees the mark.
  [[maybe_unused]] const auto written =
      ::syscall(SYS_write, bell.load(std::memory_order_relaxed), &byte, 1);  // past libcoir_hooks
  errno = error;
}

// ThreadSanitizer keeps a signal back until the thread calls a function that the sanitizer intercepts. A worker that
// sleeps in its futex calls none. So the handler is installed past the sanitizer, and runs at once. It is not
// instrumented, and calls nothing that is.
int set_handler(int signal, const struct ::sigaction& action) {
#ifdef COIR_THREAD_SANITIZER
  using function = int (*)(int, const struct ::sigaction*, struct ::sigaction*);
  static const auto of_the_c_library =
      reinterpret_cast<function>(::dlsym(::dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "sigaction"));
  return of_the_c_library(signal, &action, nullptr);
#else
  return ::sigaction(signal, &action, nullptr);
#endif
}

class dispatcher {
 public:
  recv_chan<int> subscribe(std::initializer_list<int> wanted) {
    const std::lock_guard locked(mutex_);
    start();
    subscription s{{}, {}, make_chan<int>(wanted.size())};
    s.unread.reserve(wanted.size());
    for (const int signal : wanted) s.wanted[static_cast<std::size_t>(signal)] = true;
    recv_chan<int> result = s.to;
    all_.push_back(std::move(s));
    for (const int signal : wanted) handle(signal);
    return result;
  }

 private:
  struct subscription {
    std::array<bool, signal_count> wanted;
    std::vector<int> unread;  // the signals in the channel, oldest first; those read since give() come before them
    chan<int> to;

    // A signal is in the channel at most once, so the channel is never full. If a reader takes the signal during this
    // call, the signal was still unread when it came again, so the new one counts as a repeat.
    void give(int signal) {
      unread.erase(unread.begin(), unread.end() - static_cast<std::ptrdiff_t>(std::min(to.len(), unread.size())));
      if (std::find(unread.begin(), unread.end(), signal) != unread.end()) return;
      unread.push_back(signal);
      to.try_send(signal);
    }
  };

  void start() {
    if (bell.load() >= 0) return;
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::system_category(), "coir: signals");
    ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
    try {
      sigset_t all, before;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, &before);  // the new thread blocks all signals
      struct unmask {
        sigset_t& to;
        ~unmask() { ::pthread_sigmask(SIG_SETMASK, &to, nullptr); }
      } const at_end{before};
      std::thread([this, from = ends[0]] { work(from); }).detach();
    } catch (...) {
      ::close(ends[0]);
      ::close(ends[1]);
      throw;
    }
    bell.store(ends[1]);
  }

  static void handle(int signal) {
    struct ::sigaction action{};
    action.sa_handler = &coir_note_signal;
    action.sa_flags = SA_RESTART;
    ::sigfillset(&action.sa_mask);
    if (set_handler(signal, action) != 0) throw std::system_error(errno, std::system_category(), "coir: signals");
  }

  [[noreturn]] void work(int from) {
    char bytes[64];
    for (;;) {
      [[maybe_unused]] const auto n = ::read(from, bytes, sizeof bytes);
      const std::lock_guard locked(mutex_);
      for (int signal = 1; signal < signal_count; ++signal) {
        const auto at = static_cast<std::size_t>(signal);
        if (!come[at].exchange(false, std::memory_order_acquire)) continue;
        for (subscription& s : all_)
          if (s.wanted[at]) s.give(signal);
      }
    }
  }

  std::mutex mutex_;
  std::vector<subscription> all_;
};

dispatcher& the_dispatcher() {
  static dispatcher& one = *new dispatcher;  // never destroyed: its thread runs until the process ends
  return one;
}

}  // namespace

recv_chan<int> signals(std::initializer_list<int> wanted) {
  detail::refuse_in_exploration("signals()");
  for (const int signal : wanted)
    if (signal < 1 || signal >= signal_count || signal == SIGKILL || signal == SIGSTOP || signal == 32 || signal == 33)
      throw std::invalid_argument("coir: signals: " + std::to_string(signal) + " cannot be handled");
  return the_dispatcher().subscribe(wanted);
}

}  // namespace coir
