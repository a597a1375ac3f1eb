// Descriptors and pollers where several meet: plain threads and fibers of several runtimes at one descriptor, copies of
// descriptors, numbers that are given out again, and pollers whose runtime computes.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <coir/coir.hpp>
#include <coir/detail/descriptor.hpp>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "coir_test.hpp"
#include "sched/outside_poller.hpp"
#include "sched/scheduler.hpp"

namespace {

using namespace std::chrono_literals;
using coir::detail::deadline;
using coir::detail::descriptor;
using coir::detail::io_wake;
using coir::detail::io_way;
using coir_test::until;

/// Two connected local sockets, in non-blocking mode. Who has given one away sets it to -1.
struct socket_pair {
  socket_pair() {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
      throw std::system_error(errno, std::generic_category(), "socketpair");
  }
  ~socket_pair() {
    for (const int end : ends)
      if (end >= 0) ::close(end);
  }
  socket_pair(const socket_pair&) = delete;
  socket_pair& operator=(const socket_pair&) = delete;
  int ends[2]{-1, -1};
};

void write_byte(int fd) {
  const char byte = 'x';
  ASSERT_EQ(::write(fd, &byte, 1), 1);
}

/// Reads all that there is.
void drain(int fd) {
  std::array<char, 65536> into{};
  while (::read(fd, into.data(), into.size()) > 0) {
  }
}

/// Writes until it would block.
void fill(int fd) {
  const std::array<char, 4096> from{};
  while (::write(fd, from.data(), from.size()) > 0) {
  }
}

deadline after(std::chrono::nanoseconds d) { return coir::detail::deadline_after(d); }

/// A plain thread, of which it can be told whether it sleeps in the kernel.
class sleeper {
 public:
  template <class F>
  explicit sleeper(F f)
      : thread_([this, f] {
          id_.store(::gettid());
          f();
          ended_.store(true);
        }) {}
  ~sleeper() { thread_.join(); }
  sleeper(const sleeper&) = delete;
  sleeper& operator=(const sleeper&) = delete;

  bool ended() const { return ended_.load(); }

  void wait_until_asleep() const {
    until([this] { return id_.load() != 0; });
    until([this] {
      std::ifstream in("/proc/self/task/" + std::to_string(id_.load()) + "/stat");
      std::string text;
      std::getline(in, text);
      const std::size_t name_end = text.rfind(')');
      return ended() || (name_end != std::string::npos && text.compare(name_end, 4, ") S ") == 0);
    });
  }

 private:
  std::atomic<int> id_{0};
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

/// Waits, as an operation does that was told EAGAIN when it began.
io_wake wait_once(descriptor& d, io_way way, deadline ends = coir::detail::no_deadline) {
  const descriptor::generation g = d.current();
  return d.wait(g, way, d.edges(way), "test", false, ends);
}

class Poller : public coir_test::with_processors {
 protected:
  /// How often the poller of this fiber's runtime has been asked.
  static std::uint64_t asked() { return coir::detail::current_worker()->home->io().asked(); }
};

// The fiber's wait moves the registration from the poller of plain threads to that of its runtime.
TEST_P(Poller, AFiberThatWaitsToReadDoesNotEndTheWaitOfAThreadToWrite) {
  socket_pair pair;
  fill(pair.ends[0]);
  descriptor& d = descriptor::watch(pair.ends[0]);
  const descriptor::generation g = d.current();
  std::atomic<io_wake> how{io_wake::closed};
  {
    const sleeper writer([&] { how = wait_once(d, io_way::write, after(10s)); });
    writer.wait_until_asleep();
    run([&] {
      wait_once(d, io_way::read, after(1ms));
      drain(pair.ends[1]);
      until([&] { return writer.ended(); });
    });
  }
  EXPECT_EQ(how.load(), io_wake::ready);
  d.unwatch(g);
}

// The registration is the runtime's, since one of its fibers has waited, but who waits now is none of its fibers.
TEST_P(Poller, AThreadIsServedThoughTheRuntimeThatKnowsItsDescriptorComputes) {
  socket_pair pair;
  descriptor& d = descriptor::watch(pair.ends[0]);
  const descriptor::generation g = d.current();
  for (const bool thread_first : {false, true}) {
    std::atomic<bool> registered{thread_first};
    std::atomic<io_wake> how{io_wake::closed};
    bool served = false;
    {
      const sleeper reader([&] {
        until([&] { return registered.load(); });
        how = wait_once(d, io_way::read, after(20s));
      });
      if (thread_first) reader.wait_until_asleep();
      run([&] {
        wait_once(d, io_way::read, after(1ms));
        registered = true;
        reader.wait_until_asleep();
        write_byte(pair.ends[1]);
        const auto begin = std::chrono::steady_clock::now();
        while (!reader.ended() && std::chrono::steady_clock::now() - begin < 10s) {
        }
        served = reader.ended();
      });
    }
    drain(pair.ends[0]);
    EXPECT_TRUE(served) << "thread first: " << thread_first;
    EXPECT_EQ(how.load(), io_wake::ready);
  }
  d.unwatch(g);
}

// A ring that comes when the sleeper has left the poller by itself, for an event, stays in the bell until the next one
// reads it. A processor that has run dry meanwhile must not take it for an event.
TEST_P(Poller, ABellThatIsRungLateDoesNotKeepAProcessorBusy) {
  const int rounds = coir_test::scaled(2'000);
  socket_pair pair;
  coir::runtime r(opts());
  descriptor& d = descriptor::watch(pair.ends[0]);
  const descriptor::generation g = d.current();
  std::atomic<int> read{0};
  std::atomic<int> injected{0};
  r.go([&] {
    std::array<char, 1> byte{};
    while (read < rounds) {
      const std::uint32_t seen = d.edges(io_way::read);
      if (::read(pair.ends[0], byte.data(), 1) == 1)
        ++read;
      else
        d.wait(g, io_way::read, seen, "test", false);
    }
  });
  std::thread writer([&] {
    for (int i = 0; i < rounds; ++i) {
      write_byte(pair.ends[1]);
      r.go([&] { ++injected; });
      until([&] { return read > i && injected > i; });
    }
  });
  writer.join();
  r.wait();  // ends when no processor is busy
  EXPECT_EQ(injected.load(), rounds);
  d.unwatch(g);
}

// A closed descriptor's file may live on in a copy: a child's, say. What happens there concerns nobody here.
TEST_P(Poller, ACopyOfAClosedDescriptorWakesNobody) {
  socket_pair pair;
  const int copy = ::fcntl(pair.ends[0], F_DUPFD_CLOEXEC, 0);
  run([&] {
    descriptor& d = descriptor::own(std::exchange(pair.ends[0], -1));
    wait_once(d, io_way::read, after(1ms));
    ASSERT_TRUE(d.close(d.current()));
    const std::uint64_t before = asked();
    constexpr int events = 50;
    coir::blocking([&] {
      for (int i = 0; i < events; ++i) {
        write_byte(pair.ends[1]);
        std::this_thread::sleep_for(1ms);  // time enough to be woken, as this copy's events would
        drain(copy);
      }
    });
    EXPECT_LT(asked() - before, static_cast<std::uint64_t>(events) / 2);
  });
  ::close(copy);
}

// The same for a registration that a former watcher has made, in another poller.
TEST_P(Poller, ANumberThatGetsAnOwnerLeavesThePollerOfThoseWhoWatchedIt) {
  socket_pair pair;
  descriptor& watched = descriptor::watch(pair.ends[0]);
  wait_once(watched, io_way::read, after(1ms));  // in the poller of the plain threads
  descriptor& owned = descriptor::own(std::exchange(pair.ends[0], -1));
  ASSERT_EQ(&owned, &watched);
  run([&] {
    const std::uint64_t before = coir::detail::outside_poller().asked();
    constexpr int events = 1'000;
    for (int i = 0; i < events; ++i) {
      const std::uint32_t seen = owned.edges(io_way::read);
      write_byte(pair.ends[1]);
      EXPECT_EQ(owned.wait(owned.current(), io_way::read, seen, "test", false), io_wake::ready);
      drain(owned.number());
    }
    EXPECT_LT(coir::detail::outside_poller().asked() - before, static_cast<std::uint64_t>(events) / 4);
    owned.close(owned.current());
  });
}

// It is still open, since somebody is in a section, but it will not be for long, and its owner alone may close it.
TEST(Descriptor, ANumberThatIsBeingClosedCannotBeWatched) {
  socket_pair pair;
  const int fd = std::exchange(pair.ends[0], -1);
  descriptor& d = descriptor::own(fd);
  const descriptor::generation g = d.current();
  ASSERT_TRUE(d.begin(g));
  EXPECT_TRUE(d.close(g));
  EXPECT_THROW(descriptor::watch(fd), std::system_error);
  EXPECT_GE(::fcntl(fd, F_GETFD), 0);
  d.end(g);
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1);
}

// More than the kernel gives at once.
TEST_P(Poller, MoreThanABatchThatBecomeReadyAtOnceAllRunBesideOneThatYields) {
  constexpr std::size_t count = 500;
  std::vector<int> fds(count);
  for (int& fd : fds) fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  run([&] {
    std::atomic<std::size_t> woken{0};
    std::vector<coir::task<void>> waiting;
    for (const int fd : fds)
      waiting.push_back(coir::spawn([&woken, fd] {
        descriptor& d = descriptor::watch(fd);
        const descriptor::generation g = d.current();
        EXPECT_EQ(wait_once(d, io_way::read), io_wake::ready);
        ++woken;
        d.unwatch(g);
      }));
    coir_test::until_blocked(waiting);
    const std::uint64_t one = 1;
    for (const int fd : fds) ASSERT_EQ(::write(fd, &one, sizeof one), static_cast<ssize_t>(sizeof one));
    while (woken != count) coir::yield();
    for (auto& t : waiting) t.get();
  });
  for (const int fd : fds) ::close(fd);
}

INSTANTIATE_TEST_SUITE_P(Processors, Poller, coir_test::processors, coir_test::processors_name);

}  // namespace
