// When the system refuses a call of input and output: the error has a name, nothing that was there is lost, no
// descriptor is left, and afterwards everything works again.
#include <coir/io.hpp>
#include <coir/net.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../net/net_test.hpp"
#include "io_refusals.hpp"
#include "refusals.hpp"

namespace {

using coir::net::tcp_listener;
using coir::net::tcp_stream;
using coir::net::udp_socket;
using coir::net::unix_listener;
using coir::net::unix_stream;
using coir_test::until_blocked;
using faults::io_call;
using faults::made;
using faults::refuse_io;
using faults::refused;
using net_test::any_port;
using net_test::bytes;
using net_test::error_of;
using net_test::put;
using net_test::take;
using net_test::take_all;
using net_test::tcp_pair;
using net_test::temporary_folder;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

std::error_code system_error(int number) { return {number, std::system_category()}; }

class IoFaults : public net_test::io_test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void TearDown() override {
    faults::refuse_no_io();
    faults::refuse_nothing();
    net_test::io_test::TearDown();
  }
};

/// An operation, the system call that it makes, and how to see that it has been done.
struct attempt {
  const char* name;
  io_call call;
  std::function<void()> operation;
};

/// Streams and sockets with something to read and room to write.
class stage {
 public:
  stage() : tcp_(tcp_pair()), pipe_(coir::make_pipe()), one_(any_port()), other_(any_port()) {
    file_ = std::tmpfile();
    std::fputs("file", file_);
    std::fflush(file_);
  }
  ~stage() { std::fclose(file_); }
  stage(const stage&) = delete;
  stage& operator=(const stage&) = delete;

  std::vector<attempt> attempts() {
    return {
        {"recv", io_call::recv, [this] { reads(tcp_.first, tcp_.second, &stage::read_all); }},
        {"readv", io_call::readv, [this] { reads(tcp_.first, tcp_.second, &stage::read_parts); }},
        {"read", io_call::read, [this] { reads(pipe_.second, pipe_.first, &stage::read_all); }},
        {"send", io_call::send, [this] { writes(tcp_.second, tcp_.first, &stage::write_all); }},
        {"sendmsg", io_call::sendmsg, [this] { writes(tcp_.second, tcp_.first, &stage::write_parts); }},
        {"write", io_call::write, [this] { writes(pipe_.second, pipe_.first, &stage::write_all); }},
        {"writev", io_call::writev, [this] { writes(pipe_.second, pipe_.first, &stage::write_parts); }},
        {"sendfile", io_call::sendfile, [this] { writes(tcp_.second, tcp_.first, &stage::write_file); }},
        {"sendto", io_call::sendto, [this] { datagram(); }},
        {"recvfrom", io_call::recvfrom, [this] { datagram(); }},
        {"accept4", io_call::accept4, [this] { connection(); }},
    };
  }

 private:
  using method = void (stage::*)(coir::detail::byte_stream&);

  void read_all(coir::detail::byte_stream& s) { EXPECT_EQ(take(s, 4), "file"); }
  void read_parts(coir::detail::byte_stream& s) {
    std::string a(1, ' '), b(3, ' ');
    const std::array<::iovec, 2> parts{{{a.data(), 1}, {b.data(), 3}}};
    EXPECT_EQ(s.readv(parts), 4U);
    EXPECT_EQ(a + b, "file");
  }
  void write_all(coir::detail::byte_stream& s) { put(s, "file"); }
  void write_parts(coir::detail::byte_stream& s) {
    std::string a = "f", b = "ile";
    const std::array<::iovec, 2> parts{{{a.data(), 1}, {b.data(), 3}}};
    EXPECT_EQ(s.writev(parts), 4U);
  }
  void write_file(coir::detail::byte_stream& s) { EXPECT_EQ(s.send_file(::fileno(file_), 0, 4), 4U); }

  // What was written and not read by an attempt that failed is there for the next.
  void reads(coir::detail::byte_stream& from, coir::detail::byte_stream& to, method how) {
    if (!std::exchange(sent_, true)) put(from, "file");
    (this->*how)(to);
    sent_ = false;
  }
  void writes(coir::detail::byte_stream& from, coir::detail::byte_stream& to, method how) {
    (this->*how)(from);
    EXPECT_EQ(take(to, 4), "file");
  }
  void datagram() {
    if (!std::exchange(sent_, true)) {
      try {
        one_.send_to(bytes("file"), other_.local_endpoint());
      } catch (...) {
        sent_ = false;
        throw;
      }
    }
    std::array<std::byte, 10> room;
    coir::net::endpoint from;
    EXPECT_EQ(other_.receive_from(room, from), 4U);
    EXPECT_EQ(from, one_.local_endpoint());
    sent_ = false;
  }
  void connection() {
    if (!client_.is_open()) client_ = tcp_stream::connect(listener_.local_endpoint());
    tcp_stream server = listener_.accept();
    put(client_, "file");
    EXPECT_EQ(take(server, 4), "file");
    client_.close();
  }

  std::pair<tcp_stream, tcp_stream> tcp_;
  std::pair<coir::pipe_stream, coir::pipe_stream> pipe_;
  udp_socket one_, other_;
  tcp_listener listener_{any_port()};
  tcp_stream client_;
  std::FILE* file_ = nullptr;
  bool sent_ = false;
};

// ---- transfers

TEST_P(IoFaults, AnInterruptedCallIsMadeAgain) {
  both([] {
    stage s;
    for (const attempt& each : s.attempts()) {
      refuse_io(each.call, EINTR, 3);
      each.operation();
      EXPECT_EQ(refused(each.call), 3) << each.name;
    }
  });
}

TEST_P(IoFaults, AnErrorHasItsNameAndNothingIsLost) {
  both([] {
    stage s;
    for (const attempt& each : s.attempts()) {
      for (const int error : {ENOMEM, ENOBUFS, EIO, EPERM}) {
        refuse_io(each.call, error);
        EXPECT_EQ(error_of(each.operation), system_error(error)) << each.name;
        EXPECT_EQ(refused(each.call), 1) << each.name << ' ' << error;
        each.operation();
      }
    }
  });
}

// As if it had become ready just after the call: the kernel tells of it when it is first asked to watch. (The stream
// that writes is the accepted one, since connect() has watched the other.)
TEST_P(IoFaults, ACallThatWouldBlockIsMadeAgainAfterAWait) {
  both([] {
    for (const attempt& each : stage().attempts()) {
      stage s;  // of which nothing is registered yet
      for (const attempt& mine : s.attempts()) {
        if (mine.call != each.call) continue;
        refuse_io(each.call, EAGAIN);
        mine.operation();
        EXPECT_EQ(refused(each.call), 1) << each.name;
      }
    }
  });
}

// ---- connections

TEST_P(IoFaults, AcceptPassesOverWhatTheConnectionsMet) {
  both([] {
    tcp_listener listener(any_port());
    tcp_stream client = tcp_stream::connect(listener.local_endpoint());
    for (const int error : {ECONNABORTED, EPROTO, ENETDOWN, EHOSTUNREACH}) {
      refuse_io(io_call::accept4, error, 5);
      tcp_stream server = listener.accept();
      EXPECT_TRUE(server.is_open());
      EXPECT_EQ(refused(io_call::accept4), 5);
      client = tcp_stream::connect(listener.local_endpoint());
    }
  });
}

TEST_P(IoFaults, AcceptThatFindsNoRoomThrowsOnceAndDoesNotSpin) {
  both([] {
    tcp_listener listener(any_port());
    tcp_stream client = tcp_stream::connect(listener.local_endpoint());
    for (const int error : {EMFILE, ENFILE, ENOBUFS, ENOMEM}) {
      refuse_io(io_call::accept4, error, 1000);
      EXPECT_EQ(error_of([&] { listener.accept(); }), system_error(error));
      EXPECT_EQ(error_of([&] { coir::select(coir::on_accept(listener, [](tcp_stream) {})); }), system_error(error));
      EXPECT_EQ(error_of([&] { listener.try_accept(); }), system_error(error));
      EXPECT_EQ(refused(io_call::accept4), 3);
    }
    faults::refuse_no_io();
    EXPECT_TRUE(listener.accept().is_open());
  });
}

TEST_P(IoFaults, AConnectThatIsInterruptedGoesOn) {
  both([] {
    tcp_listener listener(any_port());
    refuse_io(io_call::connect, EINTR);
    // Nothing has begun, in truth, so the socket is writable at once and the call is made again.
    tcp_stream client = tcp_stream::connect(listener.local_endpoint());
    EXPECT_EQ(refused(io_call::connect), 1);
    EXPECT_TRUE(listener.accept().is_open());
  });
}

TEST_P(IoFaults, WhatMakesASocketSaysWhyItCannot) {
  both([] {
    temporary_folder folder;
    tcp_listener listener(any_port());
    const auto connects = [&] { tcp_stream::connect(listener.local_endpoint()); };
    const auto listens = [] { const tcp_listener second(any_port()); };
    const auto listens_to_file = [&] { const unix_listener second(folder.socket("a")); };
    const auto receives = [] { const udp_socket s(any_port()); };
    for (const int error : {EMFILE, ENFILE, ENOBUFS, ENOMEM, EACCES}) {
      for (const auto& f : {std::function<void()>(connects), std::function<void()>(listens),
                            std::function<void()>(listens_to_file), std::function<void()>(receives)}) {
        refuse_io(io_call::socket, error);
        EXPECT_EQ(error_of(f), system_error(error));
      }
      refuse_io(io_call::socketpair, error);
      EXPECT_EQ(error_of([] { unix_stream::pair(); }), system_error(error));
      refuse_io(io_call::pipe2, error);
      EXPECT_EQ(error_of([] { coir::make_pipe(); }), system_error(error));
      refuse_io(io_call::setsockopt, error);
      EXPECT_EQ(error_of(connects), system_error(error));
      refuse_io(io_call::setsockopt, error);
      EXPECT_EQ(error_of(listens), system_error(error));
      refuse_io(io_call::bind, error);
      EXPECT_EQ(error_of(receives), system_error(error));
      refuse_io(io_call::listen, error);
      EXPECT_EQ(error_of(listens), system_error(error));
      refuse_io(io_call::listen, error);
      EXPECT_EQ(error_of(listens_to_file), system_error(error));
      EXPECT_FALSE(std::filesystem::exists(folder.path() + "/a"));
      refuse_io(io_call::connect, error);
      EXPECT_EQ(error_of(connects), system_error(error));
    }
    for (const auto& f : {std::function<void()>(connects), std::function<void()>(listens),
                          std::function<void()>(listens_to_file), std::function<void()>(receives)})
      f();
  });
}

TEST_P(IoFaults, WhatIsAskedOfASocketSaysWhyItCannot) {
  both([] {
    auto [a, b] = tcp_pair();
    refuse_io(io_call::getsockname, ENOBUFS);
    EXPECT_EQ(error_of([&a = a] { a.local_endpoint(); }), system_error(ENOBUFS));
    refuse_io(io_call::getpeername, ENOBUFS);
    EXPECT_EQ(error_of([&a = a] { a.remote_endpoint(); }), system_error(ENOBUFS));
    refuse_io(io_call::shutdown, ENOTCONN);
    EXPECT_EQ(error_of([&a = a] { a.shutdown(coir::net::shutdown_how::both); }), system_error(ENOTCONN));
    refuse_io(io_call::setsockopt, ENOMEM);
    EXPECT_EQ(error_of([&a = a] { a.set_no_delay(true); }), system_error(ENOMEM));
    put(a, "x");
    EXPECT_EQ(take(b, 1), "x");
  });
}

// The connection is there; that its small writes wait a little is no reason to drop it.
TEST_P(IoFaults, AnAcceptedConnectionWithoutItsOptionIsOne) {
  run([] {
    tcp_listener listener(any_port());
    tcp_stream client = tcp_stream::connect(listener.local_endpoint());
    refuse_io(io_call::setsockopt, ENOMEM);
    tcp_stream server = listener.accept();
    put(client, "x");
    EXPECT_EQ(take(server, 1), "x");
  });
}

TEST_P(IoFaults, APipeEndThatCannotBeTakenOverIsClosed) {
  run([] {
    for (int skip = 0; skip < 2; ++skip) {
      std::array<int, 2> ends{};
      ASSERT_EQ(::pipe2(ends.data(), 0), 0);
      refuse_io(io_call::fcntl, EIO, 1, skip, ends[0]);
      EXPECT_EQ(error_of([&] { const coir::pipe_stream s(ends[0]); }), system_error(EIO));
      ::close(ends[1]);
    }
  });
}

// ---- the poller

TEST_P(IoFaults, WithoutAPollerAWaitThrowsAndTheNextOneMakesIt) {
  for (const auto& [call, error] :
       {std::pair(io_call::epoll_create1, EMFILE), std::pair(io_call::epoll_create1, ENOMEM),
        std::pair(io_call::eventfd, ENFILE), std::pair(io_call::epoll_ctl, ENOSPC)}) {
    run([call = call, error = error] {
      auto [a, b] = unix_stream::pair();
      refuse_io(call, error);
      EXPECT_EQ(error_of([&b = b] { take(b, 1); }), system_error(error));
      refuse_io(call, error);
      EXPECT_EQ(error_of([&b = b] { coir::select(coir::on_readable(b)); }), system_error(error));
      coir::task<std::string> reader = coir::spawn([&b = b] { return take(b, 1); });
      until_blocked(reader);
      put(a, "x");
      EXPECT_EQ(reader.get(), "x");
    });
  }
}

TEST_P(IoFaults, ADescriptorThatCannotBeWatchedIsAnErrorOfItsWaitAlone) {
  both([] {
    std::byte room[1];
    {  // so that there is a poller
      auto [c, d] = unix_stream::pair();
      c.set_read_deadline(steady_clock::now() + 1ms);
      EXPECT_EQ(error_of([&c = c, &room] { c.read(room); }), std::errc::timed_out);
    }
    for (const int error : {ENOSPC, ENOMEM}) {
      auto [a, b] = unix_stream::pair();
      refuse_io(io_call::epoll_ctl, error, 1, 0, b.native_handle());
      EXPECT_EQ(error_of([&b = b, &room] { b.read(room); }), system_error(error));
      refuse_io(io_call::epoll_ctl, error, 1, 0, b.native_handle());
      EXPECT_EQ(error_of([&b = b] { coir::select(coir::on_readable(b), coir::on_timeout(1h)); }), system_error(error));
      {
        coir::watched_fd w(b.native_handle());
        refuse_io(io_call::epoll_ctl, error, 1, 0, b.native_handle());
        EXPECT_EQ(error_of([&] { w.wait(coir::readiness::readable); }), system_error(error));
      }
      ::pollfd fd{b.native_handle(), POLLIN, 0};
      refuse_io(io_call::epoll_ctl, error, 1, 0, b.native_handle());
      EXPECT_EQ(error_of([&] { coir::poll(std::span(&fd, 1), 1h); }), system_error(error));
      put(a, "x");
      EXPECT_EQ(take(b, 1), "x");
    }
  });
}

// The second way of a descriptor, while somebody waits for the first.
TEST_P(IoFaults, AWaitThatCannotBeginDisturbsNobodyWhoWaits) {
  run([] {
    auto [a, b] = unix_stream::pair();
    coir::task<std::string> reader = coir::spawn([&b = b] { return take(b, 1); });
    until_blocked(reader);
    refuse_io(io_call::epoll_ctl, ENOMEM, 1, 0, b.native_handle());
    const std::string much(4U << 20, 'x');
    std::error_code error;
    EXPECT_GT(b.write(bytes(much), error), 0U);
    EXPECT_EQ(error, system_error(ENOMEM));
    put(a, "x");
    EXPECT_EQ(reader.get(), "x");
  });
}

// The cases before it have been armed, those after it have not.
TEST_P(IoFaults, ASelectWithACaseThatCannotBeWatchedThrowsAndLeavesTheOthers) {
  run([] {
    auto [a, b] = unix_stream::pair();
    auto [c, d] = unix_stream::pair();
    const auto never = coir::make_chan<void>();
    coir::task<void> task = coir::spawn([never] { never.recv(); });
    for (const int number : {b.native_handle(), d.native_handle()}) {
      refuse_io(io_call::epoll_ctl, ENOSPC, 1, 0, number);
      EXPECT_EQ(error_of([&, &b = b, &d = d] {
                  coir::select(coir::on_ready(task), coir::on_readable(b), coir::on_stop(std::stop_token()),
                               coir::on_readable(d), coir::on_ready(task), coir::on_timeout(1h));
                }),
                system_error(ENOSPC));
    }
    put(c, "x");
    EXPECT_EQ(coir::select(coir::on_ready(task), coir::on_readable(b), coir::on_readable(d)), 2U);
    never.close();
    task.get();
  });
}

TEST_P(IoFaults, ADeadlockIsStillFoundAfterASelectThatCouldNotWait) {
  const auto program = [this] {
    try {
      run([] {
        auto [a, b] = unix_stream::pair();
        refuse_io(io_call::epoll_ctl, ENOSPC, 1, 0, b.native_handle());
        EXPECT_EQ(error_of([&b = b] { coir::select(coir::on_readable(b)); }), system_error(ENOSPC));
        coir::make_chan<int>().recv();
      });
    } catch (const coir::deadlock&) {
      std::_Exit(testing::Test::HasFailure() ? 1 : 0);
    }
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "");
}

TEST_P(IoFaults, AnInterruptedPollerGoesOn) {
  run([] {
    auto [a, b] = tcp_pair();
    coir::task<void> echo = coir::spawn([&b = b] {
      std::byte room[1];
      while (b.read_some(room) != 0) b.write(room);
    });
    for (int i = 0; i < 200; ++i) {
      refuse_io(io_call::epoll_wait, EINTR, 3);
      refuse_io(io_call::epoll_pwait2, EINTR, 3);
      refuse_io(io_call::poll, EINTR, 2);
      put(a, "x");
      coir::watched_fd w(a.native_handle());
      EXPECT_EQ(w.wait(coir::readiness::readable), coir::readiness::readable);
      EXPECT_EQ(take(a, 1), "x");
    }
    faults::refuse_no_io();
    a.close();
    echo.get();
  });
}

// Which kind of wait the kernel has is asked once a process.
TEST_P(IoFaults, WithoutEpollPwait2TimesAreKeptAnyway) {
  for (const int error : {ENOSYS, EPERM}) {
    const auto program = [this, error] {
      refuse_io(io_call::epoll_pwait2, error, 1 << 30);
      auto [a, b] = unix_stream::pair();
      run([&a = a, &b = b] {
        for (int i = 0; i < 20; ++i) {
          const auto before = steady_clock::now();
          b.set_read_deadline(before + 2ms);
          EXPECT_EQ(error_of([&] { take(b, 1); }), std::errc::timed_out);
          EXPECT_GE(steady_clock::now() - before, 2ms);
          coir::task<void> writer = coir::spawn([&] { put(a, "x"); });
          b.set_read_deadline(steady_clock::now() + 1h);
          EXPECT_EQ(take(b, 1), "x");
          writer.get();
        }
      });
      std::_Exit(testing::Test::HasFailure() || refused(io_call::epoll_pwait2) == 0 || made(io_call::ppoll) == 0);
    };
    EXPECT_EXIT(program(), testing::ExitedWithCode(0), "") << error;
  }
}

// A program that closes descriptors which it does not know: nobody would be woken any more.
TEST_P(IoFaults, AnEpollThatIsGoneIsReported) {
  const auto program = [this] {
    auto [a, b] = unix_stream::pair();
    run([&a = a, &b = b] {
      EXPECT_THROW(coir::timeout(1ms, [&] { take(b, 1); }), coir::timed_out);
      refuse_io(io_call::epoll_wait, EBADF, 1 << 30);
      refuse_io(io_call::epoll_pwait2, EBADF, 1 << 30);
      coir::task<void> reader = coir::spawn([&] {
        for (;;) take(b, 1);
      });
      for (;;) {  // until nobody sleeps in the kernel from before
        put(a, "x");
        coir::sleep_for(100us);
      }
    });
  };
  EXPECT_EXIT(program(), testing::KilledBySignal(SIGABRT), "the epoll of a poller: epoll_wait\\(\\) failed, errno 9");
}

// ---- memory

TEST_P(IoFaults, WithoutMemoryForADescriptorTheNumberIsClosed) {
  ::rlimit room{};
  ::getrlimit(RLIMIT_NOFILE, &room);
  if (room.rlim_max < 12'000) GTEST_SKIP() << "this process may not have such numbers";
  room.rlim_cur = room.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &room);
  const auto program = [] {
    const int before = net_test::open_descriptors();
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const int high = ::fcntl(ends[0], F_DUPFD_CLOEXEC, 10'000);
    ASSERT_GE(high, 10'000);
    faults::refuse_memory(true);
    bool thrown = false;
    try {
      const coir::pipe_stream s(high);
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    faults::refuse_memory(false);
    EXPECT_TRUE(thrown);
    ::close(ends[0]);
    ::close(ends[1]);
    EXPECT_EQ(net_test::open_descriptors(), before);
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "");
}

// ---- processes, names, signals

TEST_P(IoFaults, AProcessThatCannotBeStartedLeavesNothing) {
  both([] {
    for (int skip = 0; skip < 3; ++skip) {
      refuse_io(io_call::pipe2, EMFILE, 1, skip);
      EXPECT_EQ(error_of([] { coir::process({"true"}); }), system_error(EMFILE));
    }
    for (const int error : {EAGAIN, ENOMEM}) {
      refuse_io(io_call::posix_spawnp, error);
      EXPECT_EQ(error_of([] { coir::process({"true"}); }), system_error(error));
    }
  });
}

// Older kernels, and some that filter system calls.
TEST_P(IoFaults, WithoutPidfdsAThreadWaitsForAProcess) {
  both([] {
    refuse_io(io_call::pidfd_open, ENOSYS);
    coir::process p({"/bin/sh", "-c", "read x; exit 3"});
    EXPECT_EQ(refused(io_call::pidfd_open), 1);
    put(p.in(), "go\n");
    EXPECT_EQ(p.wait(), 3);
    p.kill(SIGTERM);
    refuse_io(io_call::pidfd_open, EMFILE);
    coir::process sleeps({"sleep", "1000"});
    sleeps.kill(SIGKILL);
    EXPECT_EQ(sleeps.wait(), 128 + SIGKILL);
  });
}

TEST_P(IoFaults, APidfdThatCannotBeWatchedIsWaitedForOtherwise) {
  both([] {
    refuse_io(io_call::fstat, ENOMEM);
    coir::process p({"/bin/sh", "-c", "exit 4"});
    EXPECT_EQ(refused(io_call::fstat), 1);
    EXPECT_EQ(p.wait(), 4);
    coir::process sleeps({"/bin/sh", "-c", "sleep 0.02; exit 5"});
    refuse_io(io_call::epoll_ctl, ENOSPC);
    EXPECT_EQ(sleeps.wait(), 5);
  });
}

TEST_P(IoFaults, AnInterruptedWaitForAProcessGoesOn) {
  both([] {
    refuse_io(io_call::waitid, EINTR, 3);
    EXPECT_EQ(coir::process({"/bin/sh", "-c", "exit 6"}).wait(), 6);
    EXPECT_EQ(refused(io_call::waitid), 3);
  });
}

TEST_P(IoFaults, ALookupThatFailsSaysHow) {
  both([] {
    const auto lookup = [] { coir::net::resolve("coir-test.invalid", "80"); };
    for (const int error : {EAI_AGAIN, EAI_FAIL, EAI_MEMORY}) {
      for (int skip = 0; skip < 2; ++skip) {  // the first call asks nobody: whether the name is a number
        refuse_io(io_call::getaddrinfo, error, 1, skip);
        EXPECT_EQ(error_of(lookup), std::error_code(error, coir::net::resolve_category()));
      }
    }
    refuse_io(io_call::getaddrinfo, EAI_SYSTEM);
    EXPECT_EQ(error_of(lookup), system_error(EIO));
  });
}

TEST_P(IoFaults, SignalsThatCannotBeHadAreAnError) {
  const auto program = [] {
    refuse_io(io_call::pipe2, EMFILE);
    EXPECT_EQ(error_of([] { coir::signals({SIGUSR1}); }), system_error(EMFILE));
    faults::refuse(faults::call::thread_creation, 1);
    EXPECT_EQ(error_of([] { coir::signals({SIGUSR1}); }), std::errc::resource_unavailable_try_again);
    refuse_io(io_call::sigaction, EINVAL, 1, 0, SIGUSR1);
    EXPECT_EQ(error_of([] { coir::signals({SIGUSR1}); }), system_error(EINVAL));
    const auto ch = coir::signals({SIGUSR1});
    ::kill(::getpid(), SIGUSR1);
    EXPECT_EQ(ch.recv(), SIGUSR1);
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "");
}

// In a process in which no plain thread has waited yet: the fixture makes one wait.
TEST(IoFaultsAlone, WithoutAThreadForThePollerAPlainThreadsWaitThrows) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto program = [] {
    auto [a, b] = unix_stream::pair();
    faults::refuse(faults::call::thread_creation, 1);
    EXPECT_EQ(error_of([&b = b] { take(b, 1); }), std::errc::resource_unavailable_try_again);
    refuse_io(io_call::epoll_create1, EMFILE);
    a.set_read_deadline(steady_clock::now() + 1ms);
    EXPECT_EQ(error_of([&a = a] { take(a, 1); }), std::errc::timed_out) << "the epoll is there already";
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "");
}

INSTANTIATE_TEST_SUITE_P(Processors, IoFaults, coir_test::processors, coir_test::processors_name);

}  // namespace
