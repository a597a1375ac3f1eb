// How input and output end: the number of a descriptor, runtimes that end, waits that are no deadlock, a process
// without descriptors, and what came before a deadline or a cancellation.
#include <coir/io.hpp>
#include <coir/net.hpp>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <coir/detail/io_owner.hpp>

#include "net_test.hpp"

namespace {

using coir::net::errc;
using coir::net::tcp_listener;
using coir::net::tcp_stream;
using coir::net::udp_socket;
using coir::net::unix_stream;
using coir_test::scaled;
using coir_test::until_blocked;
using net_test::any_port;
using net_test::error_of;
using net_test::put;
using net_test::take;
using net_test::tcp_pair;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

class io_end_test : public net_test::io_test {};

bool number_is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

// ---- close

TEST_P(io_end_test, TheNumberIsNotGivenBackBeforeTheLastHasLeft) {
  both([] {
    auto [a, b] = unix_stream::pair();
    const int number = b.native_handle();
    {
      const coir::detail::io_handle::use inside(coir::detail::io_owner_access::handle(b));
      b.close();
      EXPECT_FALSE(b.is_open());
      EXPECT_EQ(error_of([&b = b] { take(b, 1); }), errc::closed) << "nobody comes in any more";
      EXPECT_TRUE(number_is_open(number));
    }
    EXPECT_FALSE(number_is_open(number));
  });
}

TEST_P(io_end_test, ManyCloseAtOnceWhileManyWait) {
  run([] {
    for (int i = 0; i < scaled(60) + 2; ++i) {
      tcp_listener listener(any_port());
      std::vector<coir::task<std::error_code>> accepters;
      for (int k = 0; k < 4; ++k)
        accepters.push_back(coir::spawn([&] { return error_of([&] { listener.accept(); }); }));
      std::thread thread([&] { EXPECT_EQ(error_of([&] { listener.accept(); }), errc::closed); });
      if (i % 2 == 0) until_blocked(accepters);
      std::vector<coir::task<void>> closers;
      for (int k = 0; k < 3; ++k) closers.push_back(coir::spawn([&] { listener.close(); }));
      for (auto& t : closers) t.get();
      for (auto& t : accepters) EXPECT_EQ(t.get(), errc::closed);
      coir::blocking([&] { thread.join(); });
    }
  });
}

// The next owner of a number meets neither what was registered for the last one nor its sleepers.
TEST_P(io_end_test, AReusedNumberServesItsNewOwner) {
  run([] {
    for (int i = 0; i < scaled(300) + 5; ++i) {
      auto [a, b] = unix_stream::pair();
      coir::task<std::error_code> reader = coir::spawn([&b = b] { return error_of([&] { take(b, 1); }); });
      if (i % 3 != 0) until_blocked(reader);
      if (i % 2 == 0) {
        b.close();
        EXPECT_EQ(reader.get(), errc::closed);
      } else {
        put(a, "x");
        EXPECT_FALSE(reader.get());
      }
    }
  });
}

// ---- data and errors that came before

// The reader has been told that a short read took everything; what comes then comes before the cancellation.
TEST_P(io_end_test, WhatCameBeforeACancellationIsReadAlsoBehindAShortRead) {
  run([] {
    for (int i = 0; i < scaled(200) + 5; ++i) {
      auto [a, b] = tcp_pair();
      std::atomic<bool> first{false}, go_on{false};
      coir::task<std::size_t> reader = coir::spawn([&, &b = b] {
        std::byte room[100];
        EXPECT_EQ(b.read_some(room), 1U);
        first = true;
        while (!go_on) coir::yield();
        return b.read_some(room);
      });
      put(a, "x");
      coir_test::until([&] { return first.load(); });
      put(a, "yy");
      ::pollfd arrived{b.native_handle(), POLLIN, 0};
      ASSERT_EQ(::poll(&arrived, 1, -1), 1);
      reader.request_stop();
      go_on = true;
      EXPECT_EQ(reader.get(), 2U);
    }
  });
}

TEST_P(io_end_test, WhatCameBeforeADeadlineIsReadAlsoBehindAShortRead) {
  both([] {
    for (int i = 0; i < scaled(100) + 5; ++i) {
      auto [a, b] = tcp_pair();
      std::byte room[100];
      put(a, "x");
      EXPECT_EQ(b.read_some(room), 1U);
      put(a, "yy");
      ::pollfd arrived{b.native_handle(), POLLIN, 0};
      ASSERT_EQ(::poll(&arrived, 1, -1), 1);
      b.set_read_deadline(steady_clock::now() - 1s);
      EXPECT_EQ(b.read_some(room), 2U);
    }
  });
}

// ---- runtimes

TEST_P(io_end_test, ARuntimeThatEndsCancelsEveryKindOfWait) {
  for (int i = 0; i < scaled(20) + 1; ++i) {
    auto [a, b] = unix_stream::pair();
    auto [out, in] = coir::make_pipe();
    auto [full_out, full_in] = coir::make_pipe();
    tcp_listener listener(any_port());
    udp_socket datagrams(any_port());
    coir::watched_fd watched(a.native_handle());
    coir::runtime rt(opts());
    std::vector<coir::task<void>> waiting;
    waiting.push_back(rt.spawn([&b = b] { take(b, 1); }));
    waiting.push_back(rt.spawn([&b = b] { coir::select(coir::on_readable(b)); }));
    waiting.push_back(rt.spawn([&out = out] { take(out, 1); }));
    waiting.push_back(rt.spawn([&in = full_in] { put(in, std::string(1U << 20, 'x')); }));
    waiting.push_back(rt.spawn([&] { listener.accept(); }));
    waiting.push_back(rt.spawn([&] {
      std::byte room[1];
      datagrams.receive(room);
    }));
    waiting.push_back(rt.spawn([&] { watched.wait(coir::readiness::readable); }));
    waiting.push_back(rt.spawn([&a = a] {
      ::pollfd fd{a.native_handle(), POLLIN, 0};
      coir::poll(std::span(&fd, 1), -1ms);
    }));
    waiting.push_back(rt.spawn([] {
      coir::process cat({"cat"});
      cat.wait();
    }));
    if (i % 2 == 0) until_blocked(waiting);
    rt.cancel();
    for (auto& t : waiting) EXPECT_THROW(t.get(), coir::task_cancelled);
  }
}

// The child is the only one who can end these waits, and the runtime does not know of it.
TEST_P(io_end_test, NoKindOfWaitIsADeadlock) {
  const auto slow = [] {
    return coir::process({"/bin/sh", "-c", "sleep 0.05; echo"},
                         {.in = coir::standard_stream::null, .err = coir::standard_stream::null});
  };
  run([&] {
    coir::process p = slow();
    EXPECT_EQ(take(p.out(), 1), "\n");
  });
  run([&] {
    coir::process p = slow();
    EXPECT_EQ(coir::select(coir::on_readable(p.out())), 0U);
  });
  run([&] {
    coir::process p = slow();
    coir::watched_fd w(p.out().native_handle());
    EXPECT_NE(w.wait(coir::readiness::readable), coir::readiness::none);
  });
  run([&] {
    coir::process p = slow();
    ::pollfd fd{p.out().native_handle(), POLLIN, 0};
    EXPECT_EQ(coir::poll(std::span(&fd, 1), -1ms), 1);
  });
  run([&] { EXPECT_EQ(slow().wait(), 0); });
}

TEST_P(io_end_test, TwoRuntimesShareAStream) {
  auto [a, b] = tcp_pair();
  coir::runtime one(opts()), two(opts());
  const auto echo = [](tcp_stream& s) {
    std::byte room[1];
    while (s.read_some(room) != 0) s.write(room);
  };
  // Registered with the first, and used by the second from then on.
  one.run([&b = b] { EXPECT_THROW(coir::timeout(1ms, [&] { take(b, 1); }), coir::timed_out); });
  coir::task<void> server = two.spawn([&echo, &b = b] { echo(b); });
  one.run([&a = a] {
    for (int i = 0; i < scaled(200) + 5; ++i) {
      put(a, "x");
      EXPECT_EQ(take(a, 1), "x");
    }
    a.close();
  });
  server.get();
}

// ---- without descriptors

/// Leaves the process room for n descriptors more than it has.
class descriptor_limit {
 public:
  explicit descriptor_limit(::rlim_t n) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int lowest = ::dup(0);
    ::close(lowest);
    ::rlimit now = before_;
    now.rlim_cur = static_cast<::rlim_t>(lowest) + n;
    ::setrlimit(RLIMIT_NOFILE, &now);
  }
  ~descriptor_limit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  descriptor_limit(const descriptor_limit&) = delete;
  descriptor_limit& operator=(const descriptor_limit&) = delete;

 private:
  ::rlimit before_{};
};

constexpr const char* needs_descriptors =
    "UndefinedBehaviorSanitizer opens a pipe to look at a vptr, and reports an error if there is no descriptor";

TEST_P(io_end_test, WithoutDescriptorsAcceptThrowsAndTheConnectionIsNotLost) {
  if (coir_test::address_sanitizer) GTEST_SKIP() << needs_descriptors;
  both([] {
    tcp_listener listener(any_port());
    tcp_stream client = tcp_stream::connect(listener.local_endpoint());
    put(client, "still here");
    {
      const descriptor_limit none(0);
      for (int i = 0; i < 3; ++i) EXPECT_EQ(error_of([&] { listener.accept(); }), std::errc::too_many_files_open);
      EXPECT_EQ(error_of([&] { coir::select(coir::on_accept(listener, [](tcp_stream) {})); }),
                std::errc::too_many_files_open);
      EXPECT_EQ(error_of([&] { tcp_stream::connect(listener.local_endpoint()); }), std::errc::too_many_files_open);
      EXPECT_EQ(error_of([] { coir::make_pipe(); }), std::errc::too_many_files_open);
      EXPECT_EQ(error_of([] { unix_stream::pair(); }), std::errc::too_many_files_open);
      EXPECT_EQ(error_of([] { const tcp_listener second(any_port()); }), std::errc::too_many_files_open);
      EXPECT_EQ(error_of([] { const udp_socket s(any_port()); }), std::errc::too_many_files_open);
      EXPECT_EQ(error_of([] { coir::process({"true"}); }), std::errc::too_many_files_open);
    }
    tcp_stream server = listener.accept();
    EXPECT_EQ(take(server, 10), "still here");
  });
}

TEST_P(io_end_test, WithoutADescriptorForThePollerAWaitThrowsAndTheStreamGoesOn) {
  if (coir_test::address_sanitizer) GTEST_SKIP() << needs_descriptors;
  run([] {
    auto [a, b] = unix_stream::pair();
    {
      const descriptor_limit none(0);
      EXPECT_EQ(error_of([&b = b] { take(b, 1); }), std::errc::too_many_files_open);
      EXPECT_EQ(error_of([&b = b] { coir::select(coir::on_readable(b)); }), std::errc::too_many_files_open);
      put(a, "x");
      EXPECT_EQ(take(b, 1), "x");
    }
    coir::task<std::string> reader = coir::spawn([&b = b] { return take(b, 1); });
    until_blocked(reader);
    put(a, "y");
    EXPECT_EQ(reader.get(), "y");
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, io_end_test, coir_test::processors, coir_test::processors_name);

}  // namespace
