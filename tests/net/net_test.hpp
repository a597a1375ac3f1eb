// What the tests of input and output share: a fixture that sees to it that no descriptor is left, and pairs of streams.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <dirent.h>
#include <unistd.h>

#include <coir/coir.hpp>
#include <coir/net.hpp>

#include "coir_test.hpp"

namespace net_test {

/// How many descriptors the process has.
inline int open_descriptors() {
  DIR* folder = ::opendir("/proc/self/fd");
  int n = 0;
  while (::readdir(folder) != nullptr) ++n;
  ::closedir(folder);
  return n;
}

class no_descriptor_left : public coir_test::with_processors {
 protected:
  no_descriptor_left() {
    // What plain threads wait with is made once and stays.
    auto [a, b] = coir::net::unix_stream::pair();
    a.set_read_deadline(std::chrono::steady_clock::now() + std::chrono::milliseconds(1));
    std::byte one[1];
    std::error_code error;
    a.read_some(one, error);
    a.close();
    b.close();
    before_ = open_descriptors();
  }
  void TearDown() override { EXPECT_EQ(open_descriptors(), before_); }

 private:
  int before_ = 0;
};

class io_test : public no_descriptor_left {
 protected:
  /// In fibers of a runtime, and in plain threads.
  template <class F>
  void both(F f) {
    run(f);
    f();
  }
};

/// A fiber, or a thread where there are none.
class other {
 public:
  template <class F>
  explicit other(F f) {
    if (coir::this_fiber::is_fiber())
      fiber_ = coir::spawn(std::move(f));
    else
      thread_ = std::thread(std::move(f));
  }
  void join() {
    if (thread_.joinable())
      thread_.join();
    else
      fiber_.get();
  }

 private:
  coir::task<void> fiber_;
  std::thread thread_;
};

/// A folder that is gone at the end, for sockets that are files.
class temporary_folder {
 public:
  temporary_folder() {
    const char* const parent = std::getenv("TMPDIR");
    path_ = std::string(parent != nullptr ? parent : "/tmp") + "/coir-net-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) throw std::system_error(errno, std::system_category(), path_);
  }
  ~temporary_folder() { std::filesystem::remove_all(path_); }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;

  const std::string& path() const { return path_; }
  coir::net::endpoint socket(const std::string& name) const {
    return coir::net::endpoint("unix:" + path_ + '/' + name);
  }

 private:
  std::string path_;
};

inline std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

template <class Stream>
void put(Stream& s, std::string_view text) {
  s.write(bytes(text));
}

/// All of the n bytes to come, as text.
template <class Stream>
std::string take(Stream& s, std::size_t n) {
  std::string text(n, '\0');
  s.read(std::as_writable_bytes(std::span(text)));
  return text;
}

/// All until the end of the stream.
template <class Stream>
std::string take_all(Stream& s) {
  std::string text;
  std::byte part[4096];
  while (const std::size_t n = s.read_some(part)) text.append(reinterpret_cast<const char*>(part), n);
  return text;
}

/// What f() throws.
template <class F>
std::error_code error_of(F&& f) {
  try {
    std::forward<F>(f)();
  } catch (const std::system_error& e) {
    return e.code();
  }
  return {};
}

inline coir::net::endpoint any_port() { return coir::net::endpoint("127.0.0.1:0"); }

inline std::pair<coir::net::tcp_stream, coir::net::tcp_stream> tcp_pair() {
  coir::net::tcp_listener listener(any_port());
  coir::net::tcp_stream one = coir::net::tcp_stream::connect(listener.local_endpoint());
  return {std::move(one), listener.accept()};
}

}  // namespace net_test
