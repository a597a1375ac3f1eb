// read(), recv() and their kin.
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "hooks_test.hpp"

namespace hooks_test {
namespace {

using namespace std::chrono_literals;

class hooked_receive : public hook_test {};

struct named_call {
  const char* name;
  std::function<::ssize_t(int fd, char* to, std::size_t n)> call;
};

::ssize_t receive_message(int fd, char* to, std::size_t n, int flags) {
  ::iovec buffer{to, n};
  ::msghdr message{};
  message.msg_iov = &buffer;
  message.msg_iovlen = 1;
  return ::recvmsg(fd, &message, flags);
}

::ssize_t read_two_buffers(int fd, char* to, std::size_t n) {
  const ::iovec buffers[2] = {{to, n / 2}, {to + n / 2, n - n / 2}};
  return ::readv(fd, buffers, 2);
}

extern "C" ::ssize_t __read_chk(int fd, void* to, std::size_t n, std::size_t room);
extern "C" ::ssize_t __recv_chk(int fd, void* to, std::size_t n, std::size_t room, int flags);

const std::vector<named_call>& of_files() {
  static const std::vector<named_call> all = {
      {"read", [](int fd, char* to, std::size_t n) { return ::read(fd, to, n); }},
      {"__read_chk", [](int fd, char* to, std::size_t n) { return __read_chk(fd, to, n, n); }},
      {"readv", [](int fd, char* to, std::size_t n) { return read_two_buffers(fd, to, n); }},
  };
  return all;
}

const std::vector<named_call>& of_sockets() {
  static const std::vector<named_call> all = [] {
    std::vector<named_call> calls = of_files();
    calls.push_back({"recv", [](int fd, char* to, std::size_t n) { return ::recv(fd, to, n, 0); }});
    calls.push_back({"__recv_chk", [](int fd, char* to, std::size_t n) { return __recv_chk(fd, to, n, n, 0); }});
    calls.push_back(
        {"recvfrom", [](int fd, char* to, std::size_t n) { return ::recvfrom(fd, to, n, 0, nullptr, nullptr); }});
    calls.push_back({"recvmsg", [](int fd, char* to, std::size_t n) { return receive_message(fd, to, n, 0); }});
    return calls;
  }();
  return all;
}

void expect_parks_and_receives(const named_call& each, pair ends) {
  char text[8] = {};
  EXPECT_EQ(parks([&] { return each.call(ends.a, text, sizeof text); }, [&] { put(ends.b, "hello"); }), (outcome{5, 0}))
      << each.name;
  EXPECT_STREQ(text, "hello");
  put(ends.b, "again");
  EXPECT_EQ(finishes([&] { return each.call(ends.a, text, sizeof text); }), (outcome{5, 0})) << each.name;
  EXPECT_EQ(parks([&] { return each.call(ends.a, text, sizeof text); }, [&] { ends.b.close(); }), (outcome{0, 0}))
      << each.name;
  EXPECT_TRUE(is_blocking(ends.a));
}

TEST_P(hooked_receive, ParksUntilThereIsSomethingInASocket) {
  run([] {
    for (const named_call& each : of_sockets()) expect_parks_and_receives(each, pair::sockets());
  });
}

TEST_P(hooked_receive, ParksUntilThereIsSomethingInAPipe) {
  run([] {
    for (const named_call& each : of_files()) expect_parks_and_receives(each, pair::pipe());
  });
}

TEST_P(hooked_receive, ParksUntilThereIsSomethingInANamedPipe) {
  run([] {
    char folder[] = "/tmp/coir_hooks_XXXXXX";
    ASSERT_NE(::mkdtemp(folder), nullptr);
    const std::string path = std::string(folder) + "/fifo";
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    for (const named_call& each : of_files()) {
      file both(::open(path.c_str(), O_RDWR));  // so that the next open does not wait
      pair ends{file(::open(path.c_str(), O_RDONLY)), file(::open(path.c_str(), O_WRONLY))};
      both.close();
      expect_parks_and_receives(each, std::move(ends));
    }
    ::unlink(path.c_str());
    ::rmdir(folder);
  });
}

TEST_P(hooked_receive, LeavesNonBlockingModeAlone) {
  run([] {
    char text[8];
    for (const named_call& each : of_sockets()) {
      const pair ends = pair::sockets(SOCK_STREAM, SOCK_NONBLOCK);
      EXPECT_EQ(outcome_of([&] { return each.call(ends.a, text, sizeof text); }), (outcome{-1, EAGAIN})) << each.name;
    }
    for (const named_call& each : of_files()) {
      const pair ends = pair::pipe(O_NONBLOCK);
      EXPECT_EQ(outcome_of([&] { return each.call(ends.a, text, sizeof text); }), (outcome{-1, EAGAIN})) << each.name;
    }
    const pair ends = pair::sockets();
    EXPECT_EQ(outcome_of([&] { return ::recv(ends.a, text, sizeof text, MSG_DONTWAIT); }), (outcome{-1, EAGAIN}));
  });
}

TEST_P(hooked_receive, HonoursTheTimeLimitOfTheSocket) {
  run([] {
    char text[8];
    for (const named_call& each : of_sockets()) {
      const pair ends = pair::sockets();
      const ::timeval limit{0, 5'000};
      ASSERT_EQ(::setsockopt(ends.a, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
      const auto before = std::chrono::steady_clock::now();
      EXPECT_EQ(finishes([&] { return each.call(ends.a, text, sizeof text); }), (outcome{-1, EAGAIN})) << each.name;
      EXPECT_GE(std::chrono::steady_clock::now() - before, 5ms);
    }
  });
}

TEST_P(hooked_receive, FailsWithECANCELEDWhenTheFiberIsCancelled) {
  run([] {
    char text[8];
    for (const named_call& each : of_sockets()) {
      const pair ends = pair::sockets();
      EXPECT_EQ(cancelled([&] { return each.call(ends.a, text, sizeof text); }), (outcome{-1, ECANCELED})) << each.name;
    }
    const pair ends = pair::pipe();
    EXPECT_EQ(cancelled([&] { return ::read(ends.a, text, sizeof text); }), (outcome{-1, ECANCELED}));
  });
}

TEST_P(hooked_receive, ACancelledFiberStillReceivesWhatIsThere) {
  run([] {
    const pair ends = pair::sockets();
    coir::task<::ssize_t> task = coir::spawn([&] {
      char text[8];
      ::recv(ends.a, text, sizeof text, 0);  // cancelled
      put(ends.b, "more");
      return ::recv(ends.a, text, sizeof text, 0);
    });
    coir_test::until_blocked(task);
    task.request_stop();
    EXPECT_EQ(task.get(), 4);
  });
}

TEST_P(hooked_receive, WaitsForAllIfToldTo) {
  run([] {
    const pair ends = pair::sockets();
    char text[9] = {};
    for (const bool as_message : {false, true}) {
      coir::task<::ssize_t> task = coir::spawn([&] {
        return as_message ? receive_message(ends.a, text, 8, MSG_WAITALL) : ::recv(ends.a, text, 8, MSG_WAITALL);
      });
      coir_test::until_blocked(task);
      put(ends.b, "1234");
      coir_test::until([&] {
        char any;
        return ::recv(ends.a, &any, 1, MSG_PEEK | MSG_DONTWAIT) < 0;  // it has taken these
      });
      put(ends.b, "5678");
      EXPECT_EQ(task.get(), 8);
      EXPECT_STREQ(text, "12345678");
    }
    const pair datagrams = pair::sockets(SOCK_DGRAM);
    put(datagrams.b, "1234");
    EXPECT_EQ(::recv(datagrams.a, text, 8, MSG_WAITALL), 4);
  });
}

TEST_P(hooked_receive, ReceivesManyDatagrams) {
  run([] {
    const pair ends = pair::sockets(SOCK_DGRAM);
    char text[3][8] = {};
    ::iovec buffers[3];
    ::mmsghdr messages[3] = {};
    for (std::size_t i = 0; i < 3; ++i) {
      buffers[i] = {text[i], sizeof text[i]};
      messages[i].msg_hdr.msg_iov = &buffers[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
    put(ends.b, "a");
    EXPECT_EQ(parks([&] { return ::recvmmsg(ends.a, messages, 3, 0, nullptr); },
                    [&] {
                      put(ends.b, "b");
                      put(ends.b, "c");
                    }),
              (outcome{3, 0}));
    EXPECT_EQ(std::string(text[0]) + text[1] + text[2], "abc");
    put(ends.b, "d");
    EXPECT_EQ(::recvmmsg(ends.a, messages, 3, MSG_WAITFORONE, nullptr), 1);
  });
}

TEST_P(hooked_receive, ParksForEventsAndTimers) {
  run([] {
    const file events(::eventfd(0, 0));
    std::uint64_t count = 0;
    const std::uint64_t three = 3;
    EXPECT_EQ(parks([&] { return ::read(events, &count, sizeof count); },
                    [&] { EXPECT_EQ(::write(events, &three, sizeof three), 8); }),
              (outcome{8, 0}));
    EXPECT_EQ(count, 3U);

    const file timer(::timerfd_create(CLOCK_MONOTONIC, 0));
    const ::itimerspec in_a_moment{{0, 0}, {0, 1'000'000}};
    EXPECT_EQ(parks([&] { return ::read(timer, &count, sizeof count); },
                    [&] { ::timerfd_settime(timer, 0, &in_a_moment, nullptr); }),
              (outcome{8, 0}));
  });
}

TEST_P(hooked_receive, ReadsRegularFilesAndReportsErrorsAsBefore) {
  run([] {
    const file regular(::open("/proc/self/exe", O_RDONLY));
    char text[8];
    EXPECT_EQ(outcome_of([&] { return ::read(regular, text, 4); }), (outcome{4, 0}));
    EXPECT_EQ(std::string_view(text, 4), "\177ELF");
    const file null(::open("/dev/null", O_RDWR));
    EXPECT_EQ(outcome_of([&] { return ::read(null, text, 4); }), (outcome{0, 0}));
    EXPECT_EQ(outcome_of([&] { return ::write(null, text, 4); }), (outcome{4, 0}));
    EXPECT_EQ(outcome_of([&] { return ::read(-1, text, 4); }), (outcome{-1, EBADF}));
    EXPECT_EQ(outcome_of([&] { return ::recv(null, text, 4, 0); }), (outcome{-1, ENOTSOCK}));
    const pair ends = pair::pipe();
    EXPECT_EQ(outcome_of([&] { return ::read(ends.b, text, 4); }), (outcome{-1, EBADF}));
  });
}

TEST_P(hooked_receive, KeepsErrnoIfItSucceeds) {
  run([] {
    const pair ends = pair::sockets();
    coir::task<int> task = coir::spawn([&] {
      char text[8];
      errno = ERANGE;
      ::recv(ends.a, text, sizeof text, 0);
      return last_error();
    });
    coir_test::until_blocked(task);
    put(ends.b, "x");
    EXPECT_EQ(task.get(), ERANGE);
  });
}

TEST_P(hooked_receive, BlocksPlainThreadsAsBefore) {
  const pair ends = pair::sockets();
  char text[8] = {};
  std::thread reader([&] { EXPECT_EQ(::recv(ends.a, text, sizeof text, 0), 5); });
  run([&] { put(ends.b, "hello"); });
  reader.join();
  const ::timeval limit{0, 1'000};
  ::setsockopt(ends.a, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  EXPECT_EQ(outcome_of([&] { return ::read(ends.a, text, sizeof text); }), (outcome{-1, EAGAIN}));
}

TEST_P(hooked_receive, ReadersOfOnePipeShareItsBytes) {
  run([] {
    constexpr int readers = 8;
    const int rounds = coir_test::scaled(2'000);
    pair ends = pair::pipe();
    std::vector<coir::task<int>> tasks;
    for (int i = 0; i < readers; ++i) {
      tasks.push_back(coir::spawn([&] {
        int n = 0;
        for (char one; ::read(ends.a, &one, 1) == 1;) ++n;
        return n;
      }));
    }
    for (int i = 0; i < rounds; ++i) put(ends.b, "x");
    ends.b.close();
    int sum = 0;
    for (coir::task<int>& each : tasks) sum += each.get();
    EXPECT_EQ(sum, rounds);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, hooked_receive, coir_test::processors, coir_test::processors_name);

}  // namespace
}  // namespace hooks_test
