// What the tests of libcoir_hooks share. A fiber that libcoir_hooks parks is told from one that blocks its thread by
// its status: `blocked` is a fiber that is parked. So coir_test::until_blocked() would not return if a call were not
// hooked.
#pragma once

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <coir/coir.hpp>

#include "coir_test.hpp"

namespace hooks_test {

/// How many entries a folder of /proc/self has: "fd", "task".
inline int entries(const char* folder) {
  DIR* open = ::opendir((std::string("/proc/self/") + folder).c_str());
  int n = -2;  // "." and ".."
  while (::readdir(open) != nullptr) ++n;
  ::closedir(open);
  return n;
}

/// A descriptor that is closed at the end.
class file {
 public:
  explicit file(int fd = -1) noexcept : fd_(fd) {}
  file(file&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  file& operator=(file&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~file() { close(); }

  operator int() const noexcept { return fd_; }
  void close() noexcept {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

struct pair {
  file a;  // of a pipe: the end to read from
  file b;

  static pair sockets(int type = SOCK_STREAM, int flags = 0) {
    int ends[2];
    if (::socketpair(AF_UNIX, type | flags, 0, ends) != 0) std::abort();
    return {file(ends[0]), file(ends[1])};
  }
  static pair pipe(int flags = 0) {
    int ends[2];
    if (::pipe2(ends, flags) != 0) std::abort();
    return {file(ends[0]), file(ends[1])};
  }
};

/// A TCP socket that listens on a port of its own on the loopback.
struct listener {
  file socket{::socket(AF_INET, SOCK_STREAM, 0)};
  ::sockaddr_in address{};

  listener() {
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::socklen_t size = sizeof address;
    if (::bind(socket, to(), size) != 0 || ::listen(socket, 128) != 0 ||
        ::getsockname(socket, reinterpret_cast<::sockaddr*>(&address), &size) != 0)
      std::abort();
  }
  const ::sockaddr* to() const { return reinterpret_cast<const ::sockaddr*>(&address); }
};

inline bool is_blocking(int fd) { return (::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0; }

/// What a call returned and the errno that it left, read on the thread that the fiber was on then.
struct outcome {
  ::ssize_t returned = 0;
  int error = 0;

  bool operator==(const outcome&) const = default;
};

[[gnu::noinline]] inline int last_error() {
  asm volatile("" ::: "memory");
  return errno;
}

template <class Call>
outcome outcome_of(Call&& call) {
  const auto returned = static_cast<::ssize_t>(call());
  return {returned, returned < 0 ? last_error() : 0};
}

/// Each test leaves no descriptor behind.
class hook_test : public coir_test::with_processors {
 protected:
  void SetUp() override { before_ = entries("fd"); }
  void TearDown() override { EXPECT_EQ(entries("fd"), before_); }

 private:
  int before_ = 0;
};

/// Runs call() in a fiber; when it has parked, runs release(), and returns the outcome.
template <class Call, class Release>
outcome parks(Call call, Release release) {
  coir::task<outcome> task = coir::spawn([&] { return outcome_of(call); });
  coir_test::until_blocked(task);
  release();
  return task.get();
}

/// The same for a call that parks until its time is over, or is ready at once.
template <class Call>
outcome finishes(Call call) {
  return coir::spawn([&] { return outcome_of(call); }).get();
}

/// A call that parks until its fiber is cancelled.
template <class Call>
outcome cancelled(Call call) {
  coir::task<outcome> task = coir::spawn([&] { return outcome_of(call); });
  coir_test::until_blocked(task);
  task.request_stop();
  return task.get();
}

inline void put(int fd, std::string_view text) {
  ASSERT_EQ(::write(fd, text.data(), text.size()), static_cast<::ssize_t>(text.size()));
}

}  // namespace hooks_test
