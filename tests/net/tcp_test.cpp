// tcp_stream and tcp_listener: what a program sees of them, and of its peers' manners.
#include <coir/net.hpp>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>

#include "net_test.hpp"

namespace {

using coir::net::endpoint;
using coir::net::errc;
using coir::net::tcp_listener;
using coir::net::tcp_stream;
using coir_test::scaled;
using coir_test::until_blocked;
using net_test::any_port;
using net_test::bytes;
using net_test::error_of;
using net_test::other;
using net_test::put;
using net_test::take;
using net_test::take_all;
using net_test::tcp_pair;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

class tcp_test : public net_test::io_test {};

TEST_P(tcp_test, WhatIsWrittenIsRead) {
  both([] {
    auto [a, b] = tcp_pair();
    put(a, "hello");
    EXPECT_EQ(take(b, 5), "hello");
    put(b, "world");
    EXPECT_EQ(take(a, 5), "world");
  });
}

TEST_P(tcp_test, AReaderWaitsForAWriter) {
  both([] {
    auto [a, b] = tcp_pair();
    std::string got;
    other reader([&b = b, &got] { got = take(b, 6); });
    put(a, "abc");
    put(a, "def");
    reader.join();
    EXPECT_EQ(got, "abcdef");
  });
}

TEST_P(tcp_test, TheEndIsZeroAndNoError) {
  both([] {
    auto [a, b] = tcp_pair();
    put(a, "last");
    a.close();
    std::byte room[100];
    std::error_code error;
    EXPECT_EQ(b.read_some(room, error), 4U);
    EXPECT_EQ(b.read_some(room, error), 0U);
    EXPECT_FALSE(error);
    EXPECT_EQ(b.read_some(room, error), 0U);
    EXPECT_FALSE(error);
  });
}

TEST_P(tcp_test, AnEndTooEarlyIsAnErrorOfReadAndSaysHowMuchCame) {
  both([] {
    auto [a, b] = tcp_pair();
    put(a, "abc");
    a.close();
    std::byte room[10];
    std::error_code error;
    EXPECT_EQ(b.read(room, error), 3U);
    EXPECT_EQ(error, errc::end_of_stream);
    EXPECT_EQ(error_of([&b = b, &room] { b.read(room); }), errc::end_of_stream);
  });
}

// The end comes with the last bytes, or behind a read that was short: it has no edge of its own then.
TEST_P(tcp_test, AnEndBehindAShortReadIsSeen) {
  run([] {
    for (int i = 0; i < scaled(300); ++i) {
      auto [a, b] = tcp_pair();
      coir::task<std::string> reader = coir::spawn([&b = b] { return take_all(b); });
      put(a, "x");
      if (i % 2 == 0) coir::yield();
      put(a, "y");
      a.close();
      EXPECT_EQ(reader.get(), "xy");
    }
  });
}

TEST_P(tcp_test, HalfAStreamCanBeShut) {
  both([] {
    auto [a, b] = tcp_pair();
    put(a, "question");
    a.shutdown(coir::net::shutdown_how::write);
    EXPECT_EQ(take_all(b), "question");
    put(b, "answer");
    b.close();
    EXPECT_EQ(take_all(a), "answer");
    EXPECT_TRUE(error_of([&a = a] { put(a, "more"); }));
  });
}

TEST_P(tcp_test, AResetIsAnErrorAndNoEnd) {
  both([] {
    auto [a, b] = tcp_pair();
    const ::linger at_once{1, 0};
    ASSERT_EQ(::setsockopt(a.native_handle(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    a.close();
    std::byte room[10];
    EXPECT_EQ(error_of([&b = b, &room] { b.read(room); }), std::errc::connection_reset);
  });
}

TEST_P(tcp_test, ToWriteToWhoHasGoneIsAnErrorAndNoSignal) {
  both([] {
    auto [a, b] = tcp_pair();
    b.close();
    std::error_code error;
    const std::string much(100'000, 'x');
    while (!error) a.write(bytes(much), error);
    EXPECT_TRUE(error == std::errc::connection_reset || error == std::errc::broken_pipe) << error.message();
    const std::vector<::iovec> parts{{const_cast<char*>(much.data()), much.size()}};
    error.clear();
    a.writev(parts, error);
    EXPECT_TRUE(error);
  });
}

TEST_P(tcp_test, EmptySpansReturnAtOnce) {
  both([] {
    auto [a, b] = tcp_pair();
    EXPECT_EQ(a.read_some({}), 0U);
    EXPECT_EQ(a.write_some({}), 0U);
    a.read({});
    a.write({});
    a.close();
    std::error_code error;
    a.read_some({}, error);
    EXPECT_EQ(error, errc::closed);
  });
}

TEST_P(tcp_test, ManyBuffersAtOnce) {
  both([] {
    auto [a, b] = tcp_pair();
    std::string one = "ab", two = "", three = "cde";
    const ::iovec from[] = {{one.data(), one.size()}, {two.data(), two.size()}, {three.data(), three.size()}};
    EXPECT_EQ(a.writev(from), 5U);
    std::string first(2, ' '), second(3, ' ');
    const ::iovec into[] = {{first.data(), first.size()}, {second.data(), second.size()}};
    EXPECT_EQ(b.readv(into), 5U);
    EXPECT_EQ(first + second, "abcde");
  });
}

TEST_P(tcp_test, AFileIsSent) {
  both([] {
    std::FILE* file = std::tmpfile();
    const std::string text(300'000, 'f');
    ASSERT_EQ(std::fwrite(text.data(), 1, text.size(), file), text.size());
    std::fflush(file);
    auto [a, b] = tcp_pair();
    std::string got;
    other reader([&b = b, &got] { got = take_all(b); });
    EXPECT_EQ(a.send_file(::fileno(file), 10, 1'000'000), text.size() - 10);
    a.close();
    reader.join();
    EXPECT_EQ(got.size(), text.size() - 10);
    std::fclose(file);
  });
}

TEST_P(tcp_test, AWriterWaitsForRoomAndNothingIsLost) {
  run([] {
    auto [a, b] = tcp_pair();
    constexpr std::size_t much = 4U << 20;
    coir::task<void> writer = coir::spawn([&a = a] {
      std::string text(much, ' ');
      for (std::size_t i = 0; i < much; ++i) text[i] = static_cast<char>(i * 7 % 251);
      put(a, text);
      a.close();
    });
    const std::string got = take_all(b);
    writer.get();
    ASSERT_EQ(got.size(), much);
    for (std::size_t i = 0; i < much; ++i) ASSERT_EQ(got[i], static_cast<char>(i * 7 % 251)) << i;
  });
}

// ---- deadlines

TEST_P(tcp_test, ADeadlineEndsARead) {
  both([] {
    auto [a, b] = tcp_pair();
    b.set_read_deadline(steady_clock::now() + 5ms);
    std::byte room[1];
    EXPECT_EQ(error_of([&b = b, &room] { b.read(room); }), std::errc::timed_out);
    b.set_read_deadline(std::nullopt);
    put(a, "x");
    EXPECT_EQ(take(b, 1), "x");
  });
}

TEST_P(tcp_test, WhatHasComeIsReadAfterTheDeadline) {
  both([] {
    auto [a, b] = tcp_pair();
    put(a, "x");
    b.set_read_deadline(steady_clock::now() - 1s);
    std::error_code error;
    std::byte room[10];
    while (b.read_some(room, error) == 0) ASSERT_EQ(error, std::errc::timed_out);  // until it has come
    EXPECT_FALSE(error);
    EXPECT_EQ(b.read_some(room, error), 0U);
    EXPECT_EQ(error, std::errc::timed_out);
  });
}

TEST_P(tcp_test, ADeadlineReachesWhoWaitsAlready) {
  run([] {
    auto [a, b] = tcp_pair();
    coir::task<std::error_code> reader = coir::spawn([&b = b] {
      std::byte room[1];
      return error_of([&] { b.read(room); });
    });
    until_blocked(reader);
    b.set_read_deadline(steady_clock::now() + 24h);
    b.set_read_deadline(steady_clock::now() + 1ms);
    EXPECT_EQ(reader.get(), std::errc::timed_out);
  });
}

TEST_P(tcp_test, APeerThatNeverReadsMeetsTheWritersDeadline) {
  both([] {
    auto [a, b] = tcp_pair();
    a.set_write_deadline(steady_clock::now() + 20ms);
    const std::string much(64U << 20, 'x');
    std::error_code error;
    const std::size_t n = a.write(bytes(much), error);
    EXPECT_EQ(error, std::errc::timed_out);
    EXPECT_LT(n, much.size());
  });
}

// ---- close and cancellation

TEST_P(tcp_test, CloseWakesWhoReadsWritesAndAccepts) {
  run([] {
    auto [a, b] = tcp_pair();
    tcp_listener listener(any_port());
    coir::task<std::error_code> reader = coir::spawn([&a = a] {
      std::byte room[1];
      return error_of([&] { a.read(room); });
    });
    coir::task<std::error_code> writer = coir::spawn([&a = a] {
      const std::string much(64U << 20, 'x');
      return error_of([&] { put(a, much); });
    });
    std::vector<coir::task<std::error_code>> accepters;
    for (int i = 0; i < 3; ++i)
      accepters.push_back(coir::spawn([&listener] { return error_of([&] { listener.accept(); }); }));
    until_blocked(reader);
    until_blocked(writer);
    until_blocked(accepters);
    listener.close();
    for (auto& t : accepters) EXPECT_EQ(t.get(), errc::closed);
    a.close();
    EXPECT_EQ(writer.get(), errc::closed);
    EXPECT_EQ(reader.get(), errc::closed);
  });
}

TEST_P(tcp_test, APlainThreadIsWokenByAClose) {
  auto [a, b] = tcp_pair();
  std::error_code error;
  std::atomic<bool> begun{false};
  std::thread reader([&b = b, &error, &begun] {
    std::byte room[1];
    begun = true;
    error = error_of([&] { b.read(room); });
  });
  coir_test::until([&] { return begun.load(); });
  b.close();
  reader.join();
  EXPECT_EQ(error, errc::closed);
}

TEST_P(tcp_test, AfterItsCloseAStreamIsClosedAlsoIfTheNumberIsUsedAgain) {
  both([] {
    auto [a, b] = tcp_pair();
    const int number = b.native_handle();
    b.close();
    b.close();
    EXPECT_EQ(b.native_handle(), -1);
    EXPECT_FALSE(b.is_open());
    auto [c, d] = tcp_pair();
    ASSERT_TRUE(c.native_handle() == number || d.native_handle() == number);
    put(c, "for d");
    put(d, "for c");
    std::byte room[1];
    EXPECT_EQ(error_of([&b = b, &room] { b.read(room); }), errc::closed);
    EXPECT_EQ(error_of([&b = b] { put(b, "x"); }), errc::closed);
    EXPECT_EQ(error_of([&b = b] { b.local_endpoint(); }), errc::closed);
    EXPECT_EQ(error_of([&b = b] { b.shutdown(coir::net::shutdown_how::both); }), errc::closed);
    b.set_read_deadline(steady_clock::now());
    EXPECT_EQ(take(c, 5), "for c");
    EXPECT_EQ(take(d, 5), "for d");
  });
}

TEST_P(tcp_test, ACancelledFiberLeavesAndTheStreamGoesOn) {
  run([] {
    auto [a, b] = tcp_pair();
    coir::task<void> reader = coir::spawn([&b = b] { take(b, 1); });
    until_blocked(reader);
    reader.request_stop();
    EXPECT_THROW(reader.get(), coir::task_cancelled);
    put(a, "x");
    EXPECT_EQ(take(b, 1), "x");
  });
}

TEST_P(tcp_test, ACancelledFiberReadsWhatHasCome) {
  run([] {
    auto [a, b] = tcp_pair();
    put(a, "abc");
    EXPECT_EQ(take(b, 1), "a");
    coir::task<std::string> reader = coir::spawn([&b = b] {
      std::string got;
      try {
        for (;;) got += take(b, 1);
      } catch (const coir::cancelled&) {
        return got;
      }
    });
    reader.request_stop();
    EXPECT_EQ(reader.get(), "bc");
  });
}

TEST_P(tcp_test, ATimeoutEndsARead) {
  run([] {
    auto [a, b] = tcp_pair();
    EXPECT_THROW(coir::timeout(2ms, [&b = b] { take(b, 1); }), coir::timed_out);
    put(a, "x");
    EXPECT_EQ(take(b, 1), "x");
  });
}

TEST_P(tcp_test, ARuntimeThatEndsCancelsWhoWaits) {
  auto [a, b] = tcp_pair();
  std::atomic<bool> unwound{false};
  {
    coir::runtime rt(opts());
    coir::task<void> reader = rt.spawn([s = std::move(b), &unwound]() mutable {
      struct flag {
        std::atomic<bool>& to;
        ~flag() { to = true; }
      } const at_end{unwound};
      take(s, 1);
    });
    until_blocked(reader);
    reader.detach();
    rt.cancel();
  }
  EXPECT_TRUE(unwound);
  std::byte room[1];
  EXPECT_EQ(a.read_some(room), 0U);
}

TEST_P(tcp_test, AWaitForAPeerIsNoDeadlock) {
  auto [a, b] = tcp_pair();
  std::thread peer([&a = a] {
    std::this_thread::sleep_for(50ms);  // so that the runtime is quiet for a while, whatever the machine does
    put(a, "x");
  });
  run([&b = b] { EXPECT_EQ(take(b, 1), "x"); });
  peer.join();
}

TEST_P(tcp_test, AStreamOutlivesTheRuntimeThatItWaitedIn) {
  auto [a, b] = tcp_pair();
  for (int i = 0; i < 3; ++i) {
    run([&a = a, &b = b] {
      coir::task<void> writer = coir::spawn([&] { put(a, "x"); });
      EXPECT_EQ(take(b, 1), "x");
      writer.get();
    });
  }
  std::thread peer([&a = a] { put(a, "y"); });
  EXPECT_EQ(take(b, 1), "y");
  peer.join();
}

TEST_P(tcp_test, AWaitThatOutlivesTheRuntimeOfItsPollerGoesOn) {
  auto [a, b] = tcp_pair();
  std::thread reader;
  run([&b = b, &reader] {
    // Registered in this runtime, and waited for by a thread.
    EXPECT_THROW(coir::timeout(1ms, [&] { take(b, 1); }), coir::timed_out);
    reader = std::thread([&b] { EXPECT_EQ(take(b, 2), "xy"); });
  });
  put(a, "x");
  put(a, "y");
  reader.join();
}

// ---- listeners

TEST_P(tcp_test, AListenerOnATakenPortSaysWhich) {
  run([] {
    const tcp_listener first(any_port());
    const endpoint taken = first.local_endpoint();
    EXPECT_NE(taken.port(), 0);
    EXPECT_EQ(error_of([&] { const tcp_listener second(taken); }), std::errc::address_in_use);
    coir_test::expect_throw_message<std::system_error>([&] { const tcp_listener second(taken); }, taken.to_string());
    EXPECT_THROW(tcp_listener(endpoint("unix:/x")), std::invalid_argument);
    EXPECT_THROW(tcp_listener{endpoint()}, std::invalid_argument);
  });
}

TEST_P(tcp_test, NobodyThereIsRefused) {
  both([] {
    endpoint gone;
    {
      const tcp_listener listener(any_port());
      gone = listener.local_endpoint();
    }
    EXPECT_EQ(error_of([&] { tcp_stream::connect(gone); }), std::errc::connection_refused);
    std::error_code error;
    EXPECT_FALSE(tcp_stream::connect("127.0.0.1", std::to_string(gone.port()), error).is_open());
    EXPECT_EQ(error, std::errc::connection_refused);
  });
}

TEST_P(tcp_test, ConnectByName) {
  run([] {
    tcp_listener listener(any_port());
    tcp_stream a = tcp_stream::connect("127.0.0.1", std::to_string(listener.local_endpoint().port()));
    tcp_stream b = listener.accept();
    EXPECT_EQ(a.remote_endpoint(), listener.local_endpoint());
    EXPECT_EQ(a.local_endpoint(), b.remote_endpoint());
    a.set_no_delay(false);
    a.set_keep_alive(true);
  });
}

TEST_P(tcp_test, ADeadlineEndsAnAccept) {
  both([] {
    tcp_listener listener(any_port());
    listener.set_deadline(steady_clock::now() + 1ms);
    EXPECT_EQ(error_of([&] { listener.accept(); }), std::errc::timed_out);
  });
}

TEST_P(tcp_test, ManyAcceptersShareManyConnections) {
  run([] {
    tcp_listener listener(any_port());
    std::atomic<int> accepted{0};
    const int all = scaled(400) + 20;
    std::vector<coir::task<void>> accepters;
    for (int i = 0; i < 5; ++i)
      accepters.push_back(coir::spawn([&] {
        std::error_code error;
        for (;;) {
          tcp_stream s = listener.accept(error);
          if (error) return;
          put(s, "!");
          ++accepted;
        }
      }));
    std::vector<coir::task<void>> clients;
    for (int i = 0; i < 10; ++i)
      clients.push_back(coir::spawn([&, i] {
        for (int k = i; k < all; k += 10) {
          tcp_stream s = tcp_stream::connect(listener.local_endpoint());
          EXPECT_EQ(take_all(s), "!");
        }
      }));
    for (auto& t : clients) t.get();
    listener.close();
    for (auto& t : accepters) t.get();
    EXPECT_EQ(accepted, all);
  });
}

TEST_P(tcp_test, EchoOfManyAtOnce) {
  run([] {
    tcp_listener listener(any_port());
    coir::task<void> server = coir::spawn([&] {
      std::error_code error;
      for (;;) {
        tcp_stream s = listener.accept(error);
        if (error) return;
        coir::go([s = std::move(s)]() mutable {
          std::byte room[512];
          while (const std::size_t n = s.read_some(room)) s.write(std::span(room, n));
        });
      }
    });
    std::vector<coir::task<void>> clients;
    for (int i = 0; i < 50; ++i)
      clients.push_back(coir::spawn([&, i] {
        tcp_stream s = tcp_stream::connect(listener.local_endpoint());
        for (int k = 0; k < scaled(200); ++k) {
          const std::string mine =
              std::to_string(i) + ':' + std::to_string(k) + std::string(static_cast<std::size_t>(k % 100), 'x');
          put(s, mine);
          ASSERT_EQ(take(s, mine.size()), mine);
        }
      }));
    for (auto& t : clients) t.get();
    listener.close();
    server.get();
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, tcp_test, coir_test::processors, coir_test::processors_name);

}  // namespace
