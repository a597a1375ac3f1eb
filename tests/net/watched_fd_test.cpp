// watched_fd and coir::poll: descriptors of other libraries.
#include <coir/io.hpp>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net_test.hpp"

namespace {

using coir::readiness;
using coir::watched_fd;
using coir::net::errc;
using coir::net::unix_stream;
using coir_test::scaled;
using coir_test::until_blocked;
using net_test::error_of;
using net_test::other;
using net_test::put;
using net_test::take;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

class watched_fd_test : public net_test::io_test {};

constexpr readiness either = readiness::readable | readiness::writable;

/// A pair of sockets that coir does not own.
class foreign_pair {
 public:
  foreign_pair() {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends_.data()) != 0)
      throw std::system_error(errno, std::system_category());
  }
  ~foreign_pair() {
    close_peer();
    ::close(ends_[0]);
  }
  foreign_pair(const foreign_pair&) = delete;
  foreign_pair& operator=(const foreign_pair&) = delete;

  int fd() const { return ends_[0]; }
  int peer() const { return ends_[1]; }
  void close_peer() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }
  void send() const { EXPECT_EQ(::write(ends_[1], "x", 1), 1); }
  void receive() const {
    char c = 0;
    EXPECT_EQ(::read(ends_[0], &c, 1), 1);
  }
  void fill() const {
    const std::array<char, 4096> much{};
    while (::write(ends_[0], much.data(), much.size()) > 0) {
    }
  }
  void drain_peer() const {
    std::array<char, 65536> room;
    while (::read(ends_[1], room.data(), room.size()) > 0) {
    }
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

TEST_P(watched_fd_test, WhatIsReadyReturnsAtOnce) {
  both([] {
    foreign_pair pair;
    watched_fd w(pair.fd());
    EXPECT_EQ(w.native_handle(), pair.fd());
    EXPECT_EQ(w.wait(readiness::writable), readiness::writable);
    EXPECT_EQ(w.wait(either), readiness::writable);
    pair.send();
    EXPECT_EQ(w.wait(readiness::readable), readiness::readable);
    EXPECT_EQ(w.wait(either), either);
    EXPECT_EQ(w.wait(readiness::readable), readiness::readable) << "still, as nobody has read";
  });
}

TEST_P(watched_fd_test, AWaitEndsWhenItBecomesReady) {
  both([] {
    foreign_pair pair;
    watched_fd w(pair.fd());
    for (int i = 0; i < 5; ++i) {
      other peer([&] { pair.send(); });
      EXPECT_EQ(w.wait(readiness::readable), readiness::readable);
      peer.join();
      pair.receive();
    }
    pair.fill();
    other peer([&] { pair.drain_peer(); });
    EXPECT_EQ(w.wait(readiness::writable), readiness::writable);
    peer.join();
  });
}

TEST_P(watched_fd_test, BothWaysAtOnce) {
  both([] {
    foreign_pair pair;
    watched_fd w(pair.fd());
    pair.fill();
    EXPECT_EQ(w.wait_for(either, 1ms), readiness::none);
    {
      other peer([&] { pair.send(); });
      EXPECT_EQ(w.wait(either), readiness::readable);
      peer.join();
    }
    pair.receive();
    other peer([&] { pair.drain_peer(); });
    EXPECT_EQ(w.wait(either), readiness::writable);
    peer.join();
  });
}

TEST_P(watched_fd_test, TimeRunsOut) {
  both([] {
    foreign_pair pair;
    watched_fd w(pair.fd());
    const auto before = steady_clock::now();
    EXPECT_EQ(w.wait_for(readiness::readable, 3ms), readiness::none);
    EXPECT_GE(steady_clock::now() - before, 3ms);
    EXPECT_EQ(w.wait_until(readiness::readable, steady_clock::now() + 1ms), readiness::none);
    EXPECT_EQ(w.wait_until(readiness::readable, std::chrono::system_clock::now() + 1ms), readiness::none);
    EXPECT_EQ(w.wait_for(readiness::readable, 0ms), readiness::none);
    EXPECT_EQ(w.wait_for(readiness::readable, -1h), readiness::none);
    pair.send();
    EXPECT_EQ(w.wait_for(readiness::readable, -1h), readiness::readable);
    EXPECT_EQ(w.wait_for(readiness::readable, std::chrono::hours::max()), readiness::readable);
  });
}

TEST_P(watched_fd_test, AHangUpAlwaysCounts) {
  both([] {
    foreign_pair pair;
    watched_fd w(pair.fd());
    pair.fill();
    other peer([&] { pair.close_peer(); });
    EXPECT_NE(w.wait(readiness::writable) & readiness::hang_up, readiness::none);
    peer.join();
    EXPECT_NE(w.wait(readiness::readable) & readiness::hang_up, readiness::none);
    EXPECT_NE(w.wait(readiness::none) & readiness::hang_up, readiness::none);
  });
}

TEST_P(watched_fd_test, AHalfCloseIsAHangUpForReaders) {
  run([] {
    foreign_pair pair;
    watched_fd w(pair.fd());
    coir::task<readiness> reader = coir::spawn([&] { return w.wait(readiness::readable); });
    until_blocked(reader);
    ::shutdown(pair.peer(), SHUT_WR);
    EXPECT_EQ(reader.get(), readiness::readable | readiness::hang_up);
  });
}

TEST_P(watched_fd_test, AnEndOfAPipeWithoutAReaderIsAnError) {
  run([] {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    watched_fd w(ends[1]);
    ::close(ends[0]);
    EXPECT_NE(w.wait(readiness::writable) & readiness::error, readiness::none);
    ::close(ends[1]);
  });
}

TEST_P(watched_fd_test, WhatCannotBePolledIsRefused) {
  both([] {
    std::FILE* const file = std::tmpfile();
    EXPECT_EQ(error_of([&] { const watched_fd w(::fileno(file)); }), std::errc::operation_not_permitted);
    std::fclose(file);
    EXPECT_EQ(error_of([] { const watched_fd w(-1); }), std::errc::bad_file_descriptor);
    EXPECT_EQ(error_of([] { const watched_fd w(1 << 28); }), std::errc::bad_file_descriptor);
  });
}

TEST_P(watched_fd_test, ItIsMovedAndWhatIsMovedFromIsNone) {
  run([] {
    foreign_pair one, two;
    watched_fd a(one.fd());
    watched_fd b(std::move(a));
    EXPECT_EQ(a.native_handle(), -1);
    EXPECT_EQ(error_of([&] { a.wait(readiness::readable); }), std::errc::bad_file_descriptor);
    a = watched_fd(two.fd());
    b = std::move(a);
    EXPECT_EQ(b.native_handle(), two.fd());
    two.send();
    EXPECT_EQ(b.wait(readiness::readable), readiness::readable);
  });
}

TEST_P(watched_fd_test, AnyNumberMayWait) {
  run([] {
    foreign_pair pair;
    watched_fd w(pair.fd()), second(pair.fd());
    std::vector<coir::task<readiness>> waiting;
    for (int i = 0; i < 6; ++i)
      waiting.push_back(coir::spawn([&, i] { return (i % 2 == 0 ? w : second).wait(readiness::readable); }));
    readiness of_thread{};
    std::thread thread([&] { of_thread = w.wait(readiness::readable); });
    until_blocked(waiting);
    pair.send();
    for (auto& t : waiting) EXPECT_EQ(t.get(), readiness::readable);
    coir::blocking([&] { thread.join(); });
    EXPECT_EQ(of_thread, readiness::readable);
  });
}

// The thread's wait moves into the runtime's poller, with the way that it waits for.
TEST_P(watched_fd_test, AFiberThatWaitsTheOtherWayDoesNotStrandAThread) {
  for (int i = 0; i < scaled(20); ++i) {
    foreign_pair pair;
    watched_fd w(pair.fd());
    pair.fill();
    std::atomic<bool> done{false};
    std::thread writer([&] {
      EXPECT_EQ(w.wait(readiness::writable), readiness::writable);
      done = true;
    });
    run([&] {
      EXPECT_EQ(w.wait_for(readiness::readable, 1ms), readiness::none);
      pair.drain_peer();
      coir_test::until([&] { return done.load(); });
    });
    writer.join();
  }
}

// Somebody waits for a descriptor that is registered with a runtime whose processors all compute.
TEST_P(watched_fd_test, AThreadIsServedByARuntimeThatComputes) {
  foreign_pair pair;
  watched_fd w(pair.fd());
  std::atomic<bool> served{false};
  std::thread thread;
  run([&] {
    EXPECT_EQ(w.wait_for(readiness::readable, 1ms), readiness::none);
    thread = std::thread([&] {
      EXPECT_EQ(w.wait(readiness::readable), readiness::readable);
      served = true;
    });
    std::vector<coir::task<void>> computing;
    for (unsigned i = 0; i < GetParam(); ++i)
      computing.push_back(coir::spawn([&] {
        while (!served) {
        }
      }));
    pair.send();
    for (auto& t : computing) t.get();
  });
  thread.join();
}

TEST_P(watched_fd_test, AWaitCanBeCancelled) {
  run([] {
    foreign_pair pair;
    watched_fd w(pair.fd());
    for (const readiness want : {readiness::readable, either}) {
      pair.fill();
      EXPECT_THROW(coir::timeout(1ms, [&] { w.wait(want); }), coir::timed_out);
      coir::task<void> waits = coir::spawn([&] { w.wait(want); });
      until_blocked(waits);
      waits.request_stop();
      EXPECT_THROW(waits.get(), coir::task_cancelled);
    }
    pair.send();
    EXPECT_EQ(w.wait(readiness::readable), readiness::readable);
  });
}

TEST_P(watched_fd_test, BesideItsOwnerItTakesNothingAndLearnsOfTheClose) {
  run([] {
    auto [a, b] = unix_stream::pair();
    watched_fd w(b.native_handle());
    coir::task<std::string> owner = coir::spawn([&b = b] { return take(b, 1); });
    coir::task<readiness> watcher = coir::spawn([&] { return w.wait(readiness::readable); });
    until_blocked(owner);
    until_blocked(watcher);
    put(a, "x");
    EXPECT_EQ(owner.get(), "x");
    coir::task<std::error_code> late = coir::spawn([&] { return error_of([&] { w.wait(readiness::readable); }); });
    watcher.request_stop();  // the owner may have been faster
    try {
      EXPECT_EQ(watcher.get(), readiness::readable);
    } catch (const coir::task_cancelled&) {
    }
    until_blocked(late);
    b.close();
    EXPECT_EQ(late.get(), errc::closed);
    EXPECT_EQ(error_of([&] { w.wait(readiness::readable); }), errc::closed);
  });
}

// ---- poll

TEST_P(watched_fd_test, PollSaysWhichAreReady) {
  both([] {
    foreign_pair one, two;
    std::array<::pollfd, 3> fds{{{one.fd(), POLLIN, 0}, {two.fd(), POLLIN | POLLOUT, 0}, {-1, POLLIN, 99}}};
    EXPECT_EQ(coir::poll(fds, -1ms), 1);
    EXPECT_EQ(fds[0].revents, 0);
    EXPECT_EQ(fds[1].revents, POLLOUT);
    EXPECT_EQ(fds[2].revents, 0);
    one.send();
    EXPECT_EQ(coir::poll(fds, -1ms), 2);
    EXPECT_EQ(fds[0].revents, POLLIN);
  });
}

TEST_P(watched_fd_test, PollWaitsForTheFirst) {
  both([] {
    foreign_pair one, two;
    two.fill();
    std::array<::pollfd, 2> fds{{{one.fd(), POLLIN, 0}, {two.fd(), POLLOUT, 0}}};
    {
      other peer([&] { one.send(); });
      EXPECT_EQ(coir::poll(fds, -1ms), 1);
      EXPECT_EQ(fds[0].revents, POLLIN);
      peer.join();
    }
    one.receive();
    other peer([&] { two.drain_peer(); });
    EXPECT_EQ(coir::poll(fds, 1h), 1);
    EXPECT_EQ(fds[1].revents, POLLOUT);
    peer.join();
  });
}

TEST_P(watched_fd_test, PollRunsOutOfTime) {
  both([] {
    foreign_pair pair;
    std::array<::pollfd, 1> fds{{{pair.fd(), POLLIN, 0}}};
    EXPECT_EQ(coir::poll(fds, 0ms), 0);
    const auto before = steady_clock::now();
    EXPECT_EQ(coir::poll(fds, 3ms), 0);
    EXPECT_GE(steady_clock::now() - before, 3ms);
    EXPECT_EQ(coir::poll({}, 1ms), 0);
  });
}

TEST_P(watched_fd_test, PollOfWhatIsClosedSaysSo) {
  run([] {
    std::array<::pollfd, 1> none{{{1 << 20, POLLIN, 0}}};
    EXPECT_EQ(coir::poll(none, -1ms), 1);
    EXPECT_EQ(none[0].revents, POLLNVAL);
    auto [a, b] = unix_stream::pair();
    std::array<::pollfd, 1> fds{{{b.native_handle(), POLLIN, 0}}};
    coir::task<int> waits = coir::spawn([&] { return coir::poll(fds, -1ms); });
    until_blocked(waits);
    b.close();
    EXPECT_EQ(waits.get(), 1);
    EXPECT_EQ(fds[0].revents, POLLNVAL);
  });
}

TEST_P(watched_fd_test, PollOfNothingWaitsUntilItIsCancelled) {
  run([] {
    EXPECT_THROW(coir::timeout(2ms, [] { coir::poll({}, 1h); }), coir::timed_out);
    foreign_pair pair;
    std::array<::pollfd, 1> fds{{{pair.fd(), POLLIN, 0}}};
    EXPECT_THROW(coir::timeout(1ms, [&] { coir::poll(fds, -1ms); }), coir::timed_out);
  });
}

TEST_P(watched_fd_test, PollOfManyAndOneDescriptorInManyPlaces) {
  run([] {
    std::vector<foreign_pair> pairs(60);
    std::vector<::pollfd> fds;
    for (const foreign_pair& p : pairs) fds.push_back({p.fd(), POLLIN, 0});
    fds.push_back({pairs[7].fd(), POLLIN, 0});
    coir::task<int> waits = coir::spawn([&] { return coir::poll(fds, -1ms); });
    until_blocked(waits);
    pairs[7].send();
    EXPECT_EQ(waits.get(), 2);
    EXPECT_EQ(fds[7].revents, POLLIN);
    EXPECT_EQ(fds.back().revents, POLLIN);
  });
}

TEST_P(watched_fd_test, NumbersThatAreGivenOutAgainAreWatchedAnew) {
  run([] {
    for (int i = 0; i < scaled(300); ++i) {
      foreign_pair pair;
      watched_fd w(pair.fd());
      coir::task<readiness> waits = coir::spawn([&] { return w.wait(readiness::readable); });
      if (i % 2 == 0) until_blocked(waits);
      pair.send();
      EXPECT_EQ(waits.get(), readiness::readable);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, watched_fd_test, coir_test::processors, coir_test::processors_name);

}  // namespace
