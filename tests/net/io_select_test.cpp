// select over descriptors: on_readable, on_writable, on_accept.
#include <coir/net.hpp>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <coir/async.hpp>
#include <coir/io.hpp>
#include <coir/time.hpp>

#include "net_test.hpp"

namespace {

using coir::on_accept;
using coir::on_readable;
using coir::on_recv;
using coir::on_timeout;
using coir::on_writable;
using coir::otherwise;
using coir::select;
using coir::net::errc;
using coir::net::tcp_listener;
using coir::net::tcp_stream;
using coir::net::unix_stream;
using coir_test::scaled;
using coir_test::until_blocked;
using net_test::any_port;
using net_test::bytes;
using net_test::error_of;
using net_test::other;
using net_test::put;
using net_test::take;
using net_test::tcp_pair;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

class io_select_test : public net_test::io_test {};

/// Until nothing more fits.
void fill(unix_stream& s) {
  s.set_write_deadline(steady_clock::now());
  const std::string much(65'536, 'x');
  for (std::error_code error; !error;) s.write(bytes(much), error);
  s.set_write_deadline(std::nullopt);
}

TEST_P(io_select_test, WhatIsReadyIsTakenAtOnce) {
  both([] {
    auto [a, b] = unix_stream::pair();
    bool ran = false;
    EXPECT_EQ(select(on_readable(b), on_writable(b, [&] { ran = true; })), 1U);
    EXPECT_TRUE(ran);
    EXPECT_EQ(select(on_readable(b), otherwise()), 1U);
    EXPECT_EQ(select(on_readable(b), on_timeout(0ms)), 1U);
    EXPECT_EQ(select(on_readable(b), on_timeout(-1h)), 1U);
    put(a, "x");
    EXPECT_EQ(select(on_readable(b), otherwise()), 0U);
    EXPECT_EQ(select(on_readable(b), on_timeout(0ms)), 0U);
    EXPECT_EQ(take(b, 1), "x");
    EXPECT_EQ(select(on_readable(b), otherwise()), 1U);
  });
}

TEST_P(io_select_test, AWaitEndsWhenItBecomesReady) {
  both([] {
    auto [a, b] = unix_stream::pair();
    const auto nothing = coir::make_chan<int>();
    for (int i = 0; i < 5; ++i) {
      other peer([&a = a] { put(a, "x"); });
      EXPECT_EQ(select(on_recv(nothing), on_readable(b), on_timeout(1h)), 1U);
      EXPECT_EQ(take(b, 1), "x");
      peer.join();
    }
    fill(b);
    other peer([&a = a] {
      std::byte room[65'536];
      a.set_read_deadline(steady_clock::now());
      for (std::error_code error; !error;) a.read_some(room, error);
    });
    EXPECT_EQ(select(on_recv(nothing), on_writable(b)), 1U);
    peer.join();
  });
}

TEST_P(io_select_test, TheEndAnErrorAndACloseAreReadable) {
  run([] {
    for (const bool here : {false, true}) {
      auto [a, b] = tcp_pair();
      coir::task<std::size_t> waits = coir::spawn([&b = b] { return select(on_readable(b), on_timeout(1h)); });
      until_blocked(waits);
      (here ? b : a).close();
      EXPECT_EQ(waits.get(), 0U);
      EXPECT_EQ(select(on_readable(b), otherwise()), 0U);
      std::error_code error;
      std::byte room[1];
      EXPECT_EQ(b.read_some(room, error), 0U);
      EXPECT_EQ(error, here ? errc::closed : std::error_code());
    }
    const tcp_stream never;
    EXPECT_EQ(select(on_readable(never), otherwise()), 0U);
    EXPECT_EQ(select(on_writable(never)), 0U);
  });
}

TEST_P(io_select_test, AConnectionIsAcceptedByTheCaseThatIsTaken) {
  both([] {
    tcp_listener listener(any_port());
    tcp_stream server;
    EXPECT_EQ(select(on_accept(listener, [](tcp_stream) {}), otherwise()), 1U);
    other client([&] {
      tcp_stream s = tcp_stream::connect(listener.local_endpoint());
      put(s, "hello");
    });
    EXPECT_EQ(select(on_timeout(1h), on_accept(listener, [&](tcp_stream s) { server = std::move(s); })), 1U);
    EXPECT_EQ(take(server, 5), "hello");
    client.join();
  });
}

TEST_P(io_select_test, ALosingCaseTakesNothing) {
  run([] {
    tcp_listener listener(any_port());
    auto [a, b] = unix_stream::pair();
    const auto ch = coir::make_chan<int>(1);
    for (int i = 0; i < scaled(500) + 5; ++i) {
      ch.send(i);
      EXPECT_EQ(select(on_readable(b), on_accept(listener, [](tcp_stream) { ADD_FAILURE(); }), on_recv(ch)), 2U);
      coir::task<void> sender = coir::spawn([&] { ch.send(i); });
      EXPECT_EQ(select(on_readable(b), on_accept(listener, [](tcp_stream) { ADD_FAILURE(); }), on_recv(ch)), 2U);
      sender.get();
    }
    tcp_stream client = tcp_stream::connect(listener.local_endpoint());
    put(a, "x");
    put(client, "y");
    EXPECT_EQ(take(b, 1), "x");
    tcp_stream server = listener.accept();
    EXPECT_EQ(take(server, 1), "y");
  });
}

TEST_P(io_select_test, IfAnotherFiberWasFasterTheWaitGoesOn) {
  run([] {
    tcp_listener listener(any_port());
    const int all = scaled(100) + 10;
    std::atomic<int> accepted{0};
    const auto over = coir::make_chan<void>();
    std::vector<coir::task<void>> accepters;
    for (int i = 0; i < 4; ++i)
      accepters.push_back(coir::spawn([&] {
        while (select(on_accept(listener, [&](tcp_stream) { ++accepted; }), on_recv(over)) == 0) {
        }
      }));
    for (int i = 0; i < all; ++i) tcp_stream::connect(listener.local_endpoint());
    coir_test::until([&] { return accepted == all; });
    over.close();
    for (auto& t : accepters) t.get();
    EXPECT_EQ(accepted, all);
  });
}

// A relative timeout counts from the call, however often another fiber is faster.
TEST_P(io_select_test, ATimeoutComesThoughEveryWakeUpIsInVain) {
  run([] {
    auto [a, b] = unix_stream::pair();
    std::atomic<bool> over{false};
    coir::task<void> disturbs = coir::spawn([&, &b = b] {
      while (!over) {
        b.set_read_deadline(std::nullopt);  // wakes everybody who waits to read
        coir::sleep_for(200us);
      }
    });
    int readable = 0;
    EXPECT_EQ(select(on_readable(b, [&] { ++readable; }), on_timeout(20ms)), 1U);
    EXPECT_EQ(readable, 0);
    over = true;
    disturbs.get();
  });
}

TEST_P(io_select_test, ACloseEndsAnAccept) {
  run([] {
    tcp_listener listener(any_port());
    coir::task<std::error_code> waits =
        coir::spawn([&] { return error_of([&] { select(on_accept(listener, [](tcp_stream) {}), on_timeout(1h)); }); });
    until_blocked(waits);
    listener.close();
    EXPECT_EQ(waits.get(), errc::closed);
    EXPECT_EQ(error_of([&] { select(on_accept(listener, [](tcp_stream) {}), otherwise()); }), errc::closed);
  });
}

TEST_P(io_select_test, TimeAndCancellation) {
  both([] {
    auto [a, b] = unix_stream::pair();
    const auto before = steady_clock::now();
    EXPECT_EQ(select(on_readable(b), on_readable(a), on_timeout(3ms)), 2U);
    EXPECT_GE(steady_clock::now() - before, 3ms);
    std::stop_source stop;
    stop.request_stop();
    EXPECT_EQ(select(on_readable(b), coir::on_stop(stop.get_token())), 1U);
  });
  run([] {
    auto [a, b] = unix_stream::pair();
    coir::task<void> waits = coir::spawn([&a = a, &b = b] { select(on_readable(b), on_readable(a)); });
    until_blocked(waits);
    waits.request_stop();
    EXPECT_THROW(waits.get(), coir::task_cancelled);
    EXPECT_THROW(coir::timeout(1ms, [&b = b] { select(on_readable(b)); }), coir::timed_out);
    put(a, "x");
    EXPECT_EQ(select(on_readable(b)), 0U);
  });
}

TEST_P(io_select_test, EachOfSeveralThatAreReadyIsTakenSometimes) {
  run([] {
    auto [a, b] = unix_stream::pair();
    put(a, "x");
    put(b, "y");
    const auto ch = coir::make_chan<int>(1);
    ch.send(1);
    std::vector<int> taken(4);
    for (int i = 0; i < 400; ++i)
      ++taken[select(on_readable(a), on_readable(b), on_recv(ch, [&](std::optional<int>) { ch.send(1); }),
                     on_writable(a))];
    for (const int n : taken) EXPECT_GT(n, 20);
  });
}

TEST_P(io_select_test, OneStreamInManyCases) {
  run([] {
    auto [a, b] = unix_stream::pair();
    fill(b);
    coir::task<std::size_t> waits =
        coir::spawn([&b = b] { return select(on_readable(b), on_writable(b), on_readable(b)); });
    until_blocked(waits);
    put(a, "x");
    EXPECT_NE(waits.get(), 1U);
    coir::task<std::string> reader = coir::spawn([&b = b] { return take(b, 2); });
    coir::task<std::size_t> watcher = coir::spawn([&b = b] { return select(on_writable(b), on_timeout(1h)); });
    until_blocked(reader);
    until_blocked(watcher);
    put(a, "y");
    EXPECT_EQ(reader.get(), "xy");
    b.close();
    EXPECT_EQ(watcher.get(), 0U);
  });
}

TEST_P(io_select_test, SelectsAndReadersShareAStreamAndNothingIsLost) {
  run([] {
    auto [a, b] = unix_stream::pair();
    const int all = scaled(2000) + 20;
    std::atomic<int> got{0};
    coir::mutex reads;  // one reader at a time
    std::vector<coir::task<void>> readers;
    for (int i = 0; i < 3; ++i)
      readers.push_back(coir::spawn([&, &b = b] {
        for (std::byte room[16];;) {
          select(on_readable(b));
          const std::lock_guard held(reads);
          if (select(on_readable(b), otherwise()) == 1) continue;
          const std::size_t n = b.read_some(room);
          if (n == 0) return;
          got += static_cast<int>(n);
        }
      }));
    for (int i = 0; i < all; ++i) put(a, "x");
    a.close();
    for (auto& t : readers) t.get();
    EXPECT_EQ(got, all);
  });
}

TEST_P(io_select_test, ACoroutineWaitsForAStreamToo) {
  run([] {
    auto [a, b] = unix_stream::pair();
    coir::task<std::size_t> waits = coir::spawn([](unix_stream& s) -> coir::async<std::size_t> {
      co_return co_await coir::async_select(on_readable(s), on_timeout(1h));
    }(b));
    until_blocked(waits);
    put(a, "x");
    EXPECT_EQ(waits.get(), 0U);
  });
}

TEST_P(io_select_test, ADeadlockIsStillFoundAfterAWaitForADescriptor) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process in which no thread but the runtime's could ever send
  const auto program = [this] {
    auto [a, b] = unix_stream::pair();
    try {
      run([&a = a, &b = b] {
        EXPECT_EQ(select(on_readable(b), on_readable(a), on_timeout(1ms)), 2U);
        EXPECT_EQ(select(on_readable(b), otherwise()), 1U);
        a.set_read_deadline(steady_clock::now() + 1ms);
        EXPECT_EQ(error_of([&] { take(a, 1); }), std::errc::timed_out);
        coir::watched_fd w(b.native_handle());
        EXPECT_EQ(w.wait_for(coir::readiness::readable, 1ms), coir::readiness::none);
        ::pollfd fd{b.native_handle(), POLLIN, 0};
        EXPECT_EQ(coir::poll(std::span(&fd, 1), 1ms), 0);
        coir::make_chan<int>().recv();
      });
    } catch (const coir::deadlock&) {
      std::_Exit(testing::Test::HasFailure() ? 1 : 0);
    }
    std::_Exit(2);
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "");
}

INSTANTIATE_TEST_SUITE_P(Processors, io_select_test, coir_test::processors, coir_test::processors_name);

}  // namespace
