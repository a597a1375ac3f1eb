// write(), send() and their kin.
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <climits>
#include <csignal>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include "hooks_test.hpp"

namespace hooks_test {
namespace {

class hooked_send : public hook_test {};

struct named_call {
  const char* name;
  std::function<::ssize_t(int fd, const char* from, std::size_t n)> call;
};

/// In three buffers, of which one is empty.
template <class Call>
::ssize_t in_buffers(const char* from, std::size_t n, Call call) {
  char* const start = const_cast<char*>(from);
  ::iovec buffers[3] = {{start, n / 3}, {start, 0}, {start + n / 3, n - n / 3}};
  return call(buffers, 3);
}

const std::vector<named_call>& of_files() {
  static const std::vector<named_call> all = {
      {"write", [](int fd, const char* from, std::size_t n) { return ::write(fd, from, n); }},
      {"writev",
       [](int fd, const char* from, std::size_t n) {
         return in_buffers(from, n, [fd](::iovec* buffers, int count) { return ::writev(fd, buffers, count); });
       }},
  };
  return all;
}

const std::vector<named_call>& of_sockets() {
  static const std::vector<named_call> all = [] {
    std::vector<named_call> calls = of_files();
    calls.push_back(
        {"send", [](int fd, const char* from, std::size_t n) { return ::send(fd, from, n, MSG_NOSIGNAL); }});
    calls.push_back({"sendto", [](int fd, const char* from, std::size_t n) {
                       return ::sendto(fd, from, n, MSG_NOSIGNAL, nullptr, 0);
                     }});
    calls.push_back({"sendmsg", [](int fd, const char* from, std::size_t n) {
                       return in_buffers(from, n, [fd](::iovec* buffers, int count) {
                         ::msghdr message{};
                         message.msg_iov = buffers;
                         message.msg_iovlen = static_cast<std::size_t>(count);
                         return ::sendmsg(fd, &message, MSG_NOSIGNAL);
                       });
                     }});
    return calls;
  }();
  return all;
}

std::string numbers(std::size_t n) {
  std::string text(n, '\0');
  for (std::size_t i = 0; i < n; ++i) text[i] = static_cast<char>(i * 7 % 251);
  return text;
}

std::string take(int fd, std::size_t n) {
  std::string text(n, '\0');
  std::size_t got = 0;
  while (got < n) {
    const ::ssize_t r = ::read(fd, text.data() + got, n - got);
    if (r <= 0) break;
    got += static_cast<std::size_t>(r);
  }
  text.resize(got);
  return text;
}

void expect_parks_until_all_is_sent(const named_call& each, pair ends, std::size_t n) {
  const std::string text = numbers(n);
  std::string got;
  EXPECT_EQ(parks([&] { return each.call(ends.b, text.data(), n); }, [&] { got = take(ends.a, n); }),
            (outcome{static_cast<::ssize_t>(n), 0}))
      << each.name;
  EXPECT_TRUE(got == text);
  EXPECT_TRUE(is_blocking(ends.b));
}

TEST_P(hooked_send, ParksUntilAllIsInTheSocket) {
  run([] {
    for (const named_call& each : of_sockets()) expect_parks_until_all_is_sent(each, pair::sockets(), 1'000'003);
  });
}

TEST_P(hooked_send, ParksUntilAllIsInThePipe) {
  run([] {
    for (const named_call& each : of_files()) expect_parks_until_all_is_sent(each, pair::pipe(), 200'003);
  });
}

TEST_P(hooked_send, ShortWritesToAPipeAreNotTornApart) {
  run([] {
    constexpr int writers = 4;
    constexpr int rounds = coir_test::scaled(500);
    const pair ends = pair::pipe();
    std::vector<coir::task<void>> tasks;
    for (int w = 0; w < writers; ++w) {
      tasks.push_back(coir::spawn([&ends, w] {
        const std::string line(PIPE_BUF, static_cast<char>('a' + w));
        for (int i = 0; i < rounds; ++i) EXPECT_EQ(::write(ends.b, line.data(), line.size()), PIPE_BUF);
      }));
    }
    for (int i = 0; i < writers * rounds; ++i) {
      const std::string line = take(ends.a, PIPE_BUF);
      ASSERT_EQ(line, std::string(PIPE_BUF, line[0]));
    }
    for (coir::task<void>& each : tasks) each.get();
  });
}

TEST_P(hooked_send, LeavesNonBlockingModeAlone) {
  run([] {
    const std::string text = numbers(10'000'000);
    for (const named_call& each : of_sockets()) {
      const pair ends = pair::sockets(SOCK_STREAM, SOCK_NONBLOCK);
      const outcome part = outcome_of([&] { return each.call(ends.b, text.data(), text.size()); });
      EXPECT_GT(part.returned, 0);
      EXPECT_LT(part.returned, static_cast<::ssize_t>(text.size()));
      EXPECT_EQ(outcome_of([&] { return each.call(ends.b, text.data(), text.size()); }), (outcome{-1, EAGAIN}))
          << each.name;
    }
    const pair ends = pair::pipe(O_NONBLOCK);
    EXPECT_GT(::write(ends.b, text.data(), text.size()), 0);
    EXPECT_EQ(outcome_of([&] { return ::write(ends.b, text.data(), text.size()); }), (outcome{-1, EAGAIN}));
  });
}

TEST_P(hooked_send, TellsHowMuchItSentWhenTheTimeOfTheSocketIsOver) {
  run([] {
    const std::string text = numbers(10'000'000);
    for (const named_call& each : of_sockets()) {
      const pair ends = pair::sockets();
      const ::timeval limit{0, 2'000};
      ASSERT_EQ(::setsockopt(ends.b, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit), 0);
      const outcome part = outcome_of([&] { return each.call(ends.b, text.data(), text.size()); });
      EXPECT_GT(part.returned, 0);
      EXPECT_LT(part.returned, static_cast<::ssize_t>(text.size()));
      EXPECT_EQ(outcome_of([&] { return each.call(ends.b, text.data(), text.size()); }), (outcome{-1, EAGAIN}))
          << each.name;
    }
  });
}

TEST_P(hooked_send, ABrokenPipeIsAnErrorOnceTheSignalIsIgnored) {
  run([] {
    auto* const before = std::signal(SIGPIPE, SIG_IGN);
    const std::string text = numbers(200'000);
    pair ends = pair::pipe();
    coir::task<outcome> task =
        coir::spawn([&] { return outcome_of([&] { return ::write(ends.b, text.data(), text.size()); }); });
    coir_test::until_blocked(task);
    ends.a.close();
    EXPECT_GT(task.get().returned, 0);  // what the pipe had taken
    EXPECT_EQ(outcome_of([&] { return ::write(ends.b, "x", 1); }), (outcome{-1, EPIPE}));
    std::signal(SIGPIPE, before);
  });
}

TEST_P(hooked_send, FailsWithECANCELEDWhenTheFiberIsCancelled) {
  run([] {
    const pair ends = pair::sockets();
    const std::string text = numbers(10'000'000);
    EXPECT_GT(cancelled([&] { return ::write(ends.b, text.data(), text.size()); }).returned, 0);
    EXPECT_EQ(cancelled([&] { return ::write(ends.b, text.data(), text.size()); }), (outcome{-1, ECANCELED}));
  });
}

::sockaddr_un address_of(const std::string& name) {
  ::sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.data(), name.size());
  return address;
}

// Nothing tells that the queue of such a peer has room.
TEST_P(hooked_send, DatagramsWaitForRoomInTheQueueOfAPeer) {
  run([] {
    const file to(::socket(AF_UNIX, SOCK_DGRAM, 0));
    const file from(::socket(AF_UNIX, SOCK_DGRAM, 0));
    const std::string name = std::string(1, '\0') + "coir_hooks_test_" + std::to_string(::getpid());
    const ::sockaddr_un address = address_of(name);
    const auto size = static_cast<::socklen_t>(offsetof(::sockaddr_un, sun_path) + name.size());
    ASSERT_EQ(::bind(to, reinterpret_cast<const ::sockaddr*>(&address), size), 0);
    const auto send_one = [&](int flags) {
      return ::sendto(from, "x", 1, flags, reinterpret_cast<const ::sockaddr*>(&address), size);
    };
    while (send_one(MSG_DONTWAIT) == 1) {
    }
    EXPECT_EQ(parks([&] { return send_one(0); }, [&] { EXPECT_EQ(take(to, 1), "x"); }), (outcome{1, 0}));
  });
}

TEST_P(hooked_send, SendsManyMessages) {
  run([] {
    const pair ends = pair::sockets(SOCK_DGRAM);
    char text[] = "abc";
    ::iovec buffers[3];
    ::mmsghdr messages[3] = {};
    for (std::size_t i = 0; i < 3; ++i) {
      buffers[i] = {text + i, 1};
      messages[i].msg_hdr.msg_iov = &buffers[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
    EXPECT_EQ(::sendmmsg(ends.b, messages, 3, 0), 3);
    EXPECT_EQ(messages[2].msg_len, 1U);
    for (const char* const each : {"a", "b", "c"}) EXPECT_EQ(take(ends.a, 1), each);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, hooked_send, coir_test::processors, coir_test::processors_name);

}  // namespace
}  // namespace hooks_test
