// What the workloads share: a stopwatch, what the process has used, and a check of each result, since a wrong answer is
// quickly computed. A workload is a function called in a fiber; it returns how long its measured part took, so that
// setting up and tearing down can stay outside.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace bench {

using seconds = std::chrono::duration<double>;

class stopwatch {
 public:
  seconds elapsed() const { return std::chrono::steady_clock::now() - start_; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Of a million fibers that are blocked in a receive, until the channel is closed.
struct parked_result {
  seconds create;
  double resident_bytes;  ///< a fiber
  seconds wake;
};

struct sleepers_result {
  seconds wall;
  seconds cpu;
};

/// What all threads of the process have used so far.
struct usage {
  seconds cpu{};              ///< user and system
  std::int64_t switches = 0;  ///< voluntary and involuntary, of the operating system

  static usage now() {
    rusage u{};
    getrusage(RUSAGE_SELF, &u);
    const auto time = [](timeval t) {
      return seconds(static_cast<double>(t.tv_sec)) + std::chrono::duration<double, std::micro>(t.tv_usec);
    };
    return {time(u.ru_utime) + time(u.ru_stime), u.ru_nvcsw + u.ru_nivcsw};
  }

  friend usage operator-(usage a, usage b) { return {a.cpu - b.cpu, a.switches - b.switches}; }
};

inline std::int64_t resident_bytes() {
  std::int64_t total = 0;
  std::int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

inline void check(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "%s: wrong result\n", what);
  std::abort();
}

}  // namespace bench
