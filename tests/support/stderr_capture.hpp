// What is written to stderr while an object lives, to be looked at meanwhile.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace coir_test {

/// Into a pipe: so as not to block who writes, it has to be read now and then, and no more than 64 KiB in between.
class stderr_capture {
 public:
  stderr_capture() : before_(::dup(STDERR_FILENO)) {
    std::fflush(stderr);
    int ends[2];
    if (before_ < 0 || ::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    reads_ = ends[0];
    ::fcntl(reads_, F_SETFL, O_NONBLOCK);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[1]);
  }
  ~stderr_capture() {
    std::fflush(stderr);
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    ::close(reads_);
  }
  stderr_capture(const stderr_capture&) = delete;
  stderr_capture& operator=(const stderr_capture&) = delete;

  /// All so far. By one thread at a time.
  const std::string& text() {
    char some[4096];
    for (ssize_t n; (n = ::read(reads_, some, sizeof some)) > 0;) text_.append(some, static_cast<std::size_t>(n));
    return text_;
  }

  std::size_t count(const std::string& part) {
    std::size_t n = 0;
    for (std::size_t at = text().find(part); at != text_.npos; at = text_.find(part, at + 1)) ++n;
    return n;
  }

 private:
  int before_;
  int reads_ = -1;
  std::string text_;
};

}  // namespace coir_test
