// Signals: none that arrives during a wait ends it early, and coir changes neither dispositions nor masks.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <dirent.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using runtime_test::gate;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

std::atomic<long> signals_seen{0};

/// While one lives, every other thread of the process is sent SIGUSR1 again and again; the handler does nothing, and no
/// call is restarted.
class signal_storm {
 public:
  signal_storm() {
    struct sigaction action{};
    action.sa_handler = [](int) { signals_seen.fetch_add(1, std::memory_order_relaxed); };
    ::sigaction(SIGUSR1, &action, &before_);
    thread_ = std::thread([this] {
      const pid_t self = static_cast<pid_t>(::syscall(SYS_gettid));
      while (!stop_) {
        if (DIR* tasks = ::opendir("/proc/self/task")) {
          while (const dirent* entry = ::readdir(tasks)) {
            const int tid = std::atoi(entry->d_name);
            if (tid > 0 && tid != self) ::syscall(SYS_tgkill, ::getpid(), tid, SIGUSR1);
          }
          ::closedir(tasks);
        }
        std::this_thread::sleep_for(20us);
      }
    });
  }
  ~signal_storm() {
    stop_ = true;
    thread_.join();
    // To threads that have not run since, a signal may be on its way, which the default would end the process by;
    // ignoring them discards it.
    std::signal(SIGUSR1, SIG_IGN);
    ::sigaction(SIGUSR1, &before_, nullptr);
  }
  signal_storm(const signal_storm&) = delete;
  signal_storm& operator=(const signal_storm&) = delete;

 private:
  struct sigaction before_{};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class Signals : public runtime_test::leak_checked {};

TEST_P(Signals, EndNoSleepOfAFiberEarly) {
  const signal_storm storm;
  run([] {
    std::vector<coir::task<void>> tasks;
    for (int i = 0; i < 20; ++i) {
      tasks.push_back(coir::spawn([i] {
        for (int k = 0; k < 5; ++k) {
          const auto d = std::chrono::microseconds(500 + i * 150);
          const auto begin = clock::now();
          coir::sleep_for(d);
          EXPECT_GE(clock::now() - begin, d);
        }
      }));
    }
    for (coir::task<void>& t : tasks) t.get();
  });
  EXPECT_GT(signals_seen, 0);
}

TEST_P(Signals, EndNoWaitOfAPlainThreadEarly) {
  const signal_storm storm;
  coir::runtime rt{opts()};
  gate door;
  coir::task<void> t = rt.spawn([&] { door.pass(); });
  for (int i = 0; i < 5; ++i) {
    const auto begin = clock::now();
    coir::sleep_for(3ms);
    EXPECT_GE(clock::now() - begin, 3ms);
    EXPECT_FALSE(t.wait_for(3ms));
    EXPECT_GE(clock::now() - begin, 6ms);
    EXPECT_FALSE(door.pass_for(2ms));
    EXPECT_GE(clock::now() - begin, 8ms);
  }
  door.open();
  t.get();
}

TEST_P(Signals, EndNoJoinAndNoRunEarly) {
  const signal_storm storm;
  std::atomic<bool> ended{false};
  run([&] {
    coir::task<void> t = coir::spawn([&] {
      coir::sleep_for(20ms);
      ended = true;
    });
    t.wait();
    EXPECT_TRUE(ended);
    coir::go([&] {
      coir::sleep_for(5ms);
      ended = false;
    });
  });
  EXPECT_FALSE(ended);
}

TEST_P(Signals, DoNotDisturbTheWakingOfIdleWorkers) {
  const signal_storm storm;
  coir::runtime rt{opts()};
  for (int i = 0; i < coir_test::scaled(1000); ++i) ASSERT_EQ(rt.spawn([i] { return i; }).get(), i);
}

TEST_P(Signals, KeepTheirDispositionsAndMasks) {
  struct sigaction before[NSIG]{};
  for (int s = 1; s < NSIG; ++s) ::sigaction(s, nullptr, &before[s]);
  sigset_t mask_before;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask_before);
  const auto compare = [&] {
    for (int s = 1; s < NSIG; ++s) {
      if (s == SIGSEGV) continue;  // how a stack overflow is recognised
      struct sigaction now{};
      ::sigaction(s, nullptr, &now);
      EXPECT_EQ(now.sa_handler, before[s].sa_handler) << "signal " << s;
    }
    sigset_t mask;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    for (int s = 1; s < NSIG; ++s) EXPECT_EQ(sigismember(&mask, s), sigismember(&mask_before, s)) << "signal " << s;
  };
  run([&] {
    compare();
    coir::spawn([&] {
      coir::sleep_for(100us);
      compare();
    }).get();
  });
  compare();
  EXPECT_EQ(before[SIGPIPE].sa_handler, SIG_DFL);
}

INSTANTIATE_TEST_SUITE_P(Processors, Signals, coir_test::processors, coir_test::processors_name);

}  // namespace
