// What the server under load has used so far, seen from outside, so that every server can be measured in the same way:
// CPU time by its process's clock, context switches and memory by /proc, system calls by the file that a _counted one
// maps.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "../counted_calls.hpp"

namespace bench {

class observed_server {
 public:
  struct figures {
    double cpu = 0;  ///< seconds, all threads
    std::uint64_t switches = 0;
    std::uint64_t calls = 0;
    std::uint64_t futexes = 0;
  };

  explicit observed_server(::pid_t pid, const char* calls_file = nullptr)
      : folder_("/proc/" + std::to_string(pid)), has_calls_(calls_file != nullptr) {
    if (::clock_getcpuclockid(pid, &clock_) != 0) throw std::runtime_error("no such server");
    if (!has_calls_) return;
    const int fd = ::open(calls_file, O_RDWR | O_CLOEXEC);
    void* at = fd < 0 ? MAP_FAILED : ::mmap(nullptr, sizeof(call_counts), PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) throw std::runtime_error("cannot map the file of system calls");
    ::close(fd);
    calls_ = static_cast<const call_counts*>(at);
  }

  bool has_calls() const noexcept { return has_calls_; }

  figures now() const {
    figures f;
    std::timespec time{};
    ::clock_gettime(clock_, &time);
    f.cpu = static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
    for (const auto& thread : std::filesystem::directory_iterator(folder_ + "/task")) {
      std::ifstream status(thread.path() / "status");
      for (std::string line; std::getline(status, line);)
        if (line.find("voluntary_ctxt_switches") != std::string::npos)
          f.switches += std::stoull(line.substr(line.find(':') + 1));
    }
    if (has_calls_) {
      f.calls = calls_->all();
      f.futexes = calls_->futexes.load();
    }
    return f;
  }

  double resident_bytes() const {
    double total = 0;
    double resident = 0;
    std::ifstream(folder_ + "/statm") >> total >> resident;
    return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
  }

 private:
  const std::string folder_;
  const bool has_calls_;
  ::clockid_t clock_{};
  const call_counts* calls_ = nullptr;
};

}  // namespace bench
