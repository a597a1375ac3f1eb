// connect() and accept(), and close() of what fibers wait for.
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cstring>
#include <thread>
#include <vector>

#include "hooks_test.hpp"

namespace hooks_test {
namespace {

using namespace std::chrono_literals;

class hooked_connect : public hook_test {};

TEST_P(hooked_connect, AcceptParksUntilSomebodyConnects) {
  run([] {
    const listener server;
    for (const bool with_flags : {false, true}) {
      file client(::socket(AF_INET, SOCK_STREAM, 0));
      ::sockaddr_in peer{};
      ::socklen_t size = sizeof peer;
      auto* const to = reinterpret_cast<::sockaddr*>(&peer);
      coir::task<int> accepted = coir::spawn([&] {
        return with_flags ? ::accept4(server.socket, to, &size, SOCK_NONBLOCK) : ::accept(server.socket, to, &size);
      });
      coir_test::until_blocked(accepted);
      EXPECT_EQ(::connect(client, server.to(), sizeof server.address), 0);
      EXPECT_TRUE(is_blocking(client));
      const file other(accepted.get());
      EXPECT_EQ(is_blocking(other), !with_flags);
      EXPECT_EQ(peer.sin_family, AF_INET);
    }
  });
}

TEST_P(hooked_connect, ManyFibersAcceptFromOneListener) {
  run([] {
    constexpr int count = 50;
    const listener server;
    std::vector<coir::task<file>> accepted;
    for (int i = 0; i < count; ++i)
      accepted.push_back(coir::spawn([&] { return file(::accept(server.socket, nullptr, nullptr)); }));
    coir_test::until_blocked(accepted);
    std::vector<coir::task<file>> connected;
    for (int i = 0; i < count; ++i) {
      connected.push_back(coir::spawn([&] {
        file client(::socket(AF_INET, SOCK_STREAM, 0));
        EXPECT_EQ(::connect(client, server.to(), sizeof server.address), 0);
        return client;
      }));
    }
    for (coir::task<file>& each : connected) EXPECT_GE(each.get(), 0);
    for (coir::task<file>& each : accepted) EXPECT_GE(each.get(), 0);
  });
}

TEST_P(hooked_connect, ReportsErrorsAsBefore) {
  run([] {
    ::sockaddr_in nobody{};
    {
      const listener gone;
      nobody = gone.address;
    }
    const auto* const to = reinterpret_cast<const ::sockaddr*>(&nobody);
    const file client(::socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(outcome_of([&] { return ::connect(client, to, sizeof nobody); }), (outcome{-1, ECONNREFUSED}));
    EXPECT_TRUE(is_blocking(client));
    EXPECT_EQ(outcome_of([&] { return ::connect(-1, to, sizeof nobody); }), (outcome{-1, EBADF}));
    EXPECT_EQ(outcome_of([&] { return ::accept(-1, nullptr, nullptr); }), (outcome{-1, EBADF}));
    const pair ends = pair::sockets();
    EXPECT_EQ(outcome_of([&] { return ::accept(ends.a, nullptr, nullptr); }), (outcome{-1, EINVAL}));
    const pair pipe = pair::pipe();
    EXPECT_EQ(outcome_of([&] { return ::accept(pipe.a, nullptr, nullptr); }), (outcome{-1, ENOTSOCK}));
  });
}

TEST_P(hooked_connect, LeavesNonBlockingModeAlone) {
  run([] {
    const listener server;
    ::fcntl(server.socket, F_SETFL, O_NONBLOCK);
    EXPECT_EQ(outcome_of([&] { return ::accept(server.socket, nullptr, nullptr); }), (outcome{-1, EAGAIN}));
  });
}

/// A listener whose queue is full: its peers wait for it to accept.
class full_listener {
 public:
  full_listener() {
    name_ = std::string(1, '\0') + "coir_hooks_full_" + std::to_string(::getpid());
    address_.sun_family = AF_UNIX;
    std::memcpy(address_.sun_path, name_.data(), name_.size());
    if (::bind(socket_, to(), size()) != 0 || ::listen(socket_, 0) != 0) std::abort();
    if (::connect(first_, to(), size()) != 0) std::abort();
  }
  int socket() const { return socket_; }
  const ::sockaddr* to() const { return reinterpret_cast<const ::sockaddr*>(&address_); }
  ::socklen_t size() const { return static_cast<::socklen_t>(offsetof(::sockaddr_un, sun_path) + name_.size()); }

 private:
  std::string name_;
  ::sockaddr_un address_{};
  file socket_{::socket(AF_UNIX, SOCK_STREAM, 0)};
  file first_{::socket(AF_UNIX, SOCK_STREAM, 0)};
};

TEST_P(hooked_connect, WaitsForRoomInTheQueueOfALocalListener) {
  run([] {
    const full_listener server;
    const file client(::socket(AF_UNIX, SOCK_STREAM, 0));
    file accepted;
    EXPECT_EQ(parks([&] { return ::connect(client, server.to(), server.size()); },
                    [&] { accepted = file(::accept(server.socket(), nullptr, nullptr)); }),
              (outcome{0, 0}));
  });
}

TEST_P(hooked_connect, HonoursTimeLimitsAndCancellation) {
  run([] {
    const listener server;
    const ::timeval limit{0, 2'000};
    ::setsockopt(server.socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    EXPECT_EQ(finishes([&] { return ::accept(server.socket, nullptr, nullptr); }), (outcome{-1, EAGAIN}));
    const full_listener full;
    const file client(::socket(AF_UNIX, SOCK_STREAM, 0));
    EXPECT_EQ(cancelled([&] { return ::connect(client, full.to(), full.size()); }), (outcome{-1, ECANCELED}));
    EXPECT_TRUE(is_blocking(client));
    ::setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    EXPECT_EQ(finishes([&] { return ::connect(client, full.to(), full.size()); }), (outcome{-1, EAGAIN}));
    const listener other;
    EXPECT_EQ(cancelled([&] { return ::accept(other.socket, nullptr, nullptr); }), (outcome{-1, ECANCELED}));
  });
}

TEST_P(hooked_connect, PlainThreadsConnectAndAcceptAsBefore) {
  const listener server;
  std::thread accepts([&] { EXPECT_GE(file(::accept(server.socket, nullptr, nullptr)), 0); });
  const file client(::socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_EQ(::connect(client, server.to(), sizeof server.address), 0);
  accepts.join();
}

// ---- close

TEST_P(hooked_connect, CloseWakesWhoeverWaits) {
  run([] {
    char text[8];
    pair ends = pair::sockets();
    const file copy(::dup(ends.a));  // so that the file itself stays open
    EXPECT_EQ(parks([&, fd = int(ends.a)] { return ::recv(fd, text, sizeof text, 0); }, [&] { ends.a.close(); }),
              (outcome{-1, EBADF}));
    pair polled = pair::sockets();
    ::pollfd one{polled.a, POLLIN, 0};
    EXPECT_EQ(parks([&] { return ::poll(&one, 1, -1); }, [&] { polled.a.close(); }), (outcome{1, 0}));
    EXPECT_EQ(one.revents, POLLNVAL);
  });
}

TEST_P(hooked_connect, CloseByAPlainThreadWakesWhoeverWaits) {
  run([] {
    char text[8];
    pair ends = pair::sockets();
    EXPECT_EQ(parks([&, fd = int(ends.a)] { return ::recv(fd, text, sizeof text, 0); },
                    [&] { std::thread([&] { ends.a.close(); }).join(); }),
              (outcome{-1, EBADF}));
  });
}

TEST_P(hooked_connect, WhoeverWaitsGoesOnWithTheFileThatDup2PutsThere) {
  run([] {
    char text[8] = {};
    const pair old = pair::sockets();
    const pair other = pair::sockets();
    EXPECT_EQ(parks([&] { return ::recv(old.a, text, sizeof text, 0); },
                    [&] {
                      EXPECT_EQ(::dup2(other.a, old.a), old.a);
                      put(other.b, "new");
                    }),
              (outcome{3, 0}));
    EXPECT_STREQ(text, "new");
    EXPECT_EQ(outcome_of([&] { return ::dup2(-1, old.a); }), (outcome{-1, EBADF}));
  });
}

TEST_P(hooked_connect, ANumberThatIsReusedIsWaitedForAnew) {
  run([] {
    for (int i = 0; i < coir_test::scaled(500); ++i) {
      pair ends = pair::sockets();
      char text[8];
      EXPECT_EQ(parks([&] { return ::read(ends.a, text, sizeof text); }, [&] { put(ends.b, "x"); }), (outcome{1, 0}));
    }
  });
}

coir::task<::ssize_t> receives_from(int fd) {
  return coir::spawn([fd] {
    char text[8];
    return ::recv(fd, text, sizeof text, 0);
  });
}

TEST_P(hooked_connect, ClosesRaceWithWaits) {
  run([] {
    for (int i = 0; i < coir_test::scaled(2'000); ++i) {
      pair ends = pair::sockets();
      const file copy(::dup(ends.a));
      coir::task<::ssize_t> reader = receives_from(ends.a);
      if (i % 2 == 0) coir::yield();
      ends.a.close();
      EXPECT_EQ(reader.get(), -1);
    }
  });
}

// The reader may be between its call, which has said EAGAIN, and its wait.
TEST_P(hooked_connect, AFileThatGetsTheNumberMeanwhileIsNotWaitedForUnasked) {
  run([] {
    for (int i = 0; i < coir_test::scaled(2'000); ++i) {
      pair ends = pair::sockets();
      coir::task<::ssize_t> reader = receives_from(ends.a);
      if (i % 2 == 0) coir::yield();
      ends.a.close();
      const file next(::eventfd(0, EFD_CLOEXEC));
      EXPECT_EQ(reader.get(), -1);  // EBADF, or ENOTSOCK: it has tried again
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, hooked_connect, coir_test::processors, coir_test::processors_name);

}  // namespace
}  // namespace hooks_test
