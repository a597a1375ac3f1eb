// The simulated network of explorations: streams, listeners, datagrams and pipes as the real ones.
#include "network_test.hpp"

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <coir/io.hpp>

using namespace std::chrono_literals;
using namespace network_test;

namespace {

// ---- streams -------------------------------------------------------------------------------------------------------

TEST(ExploreNetwork, AnEchoServerEchoes) {
  const coir::exploration e = coir::explore(some, [] {
    tcp_listener listener(endpoint("127.0.0.1:0"));
    coir::task<void> server = coir::spawn([&] {
      coir::wait_group clients;
      for (int i = 0; i < 2; ++i)
        clients.go([s = listener.accept()]() mutable {
          for (std::string part; !(part = read_some(s)).empty();) put(s, part);
        });
      clients.wait();
    });
    const auto talk = [&](std::string_view text) {
      tcp_stream s = tcp_stream::connect(listener.local_endpoint());
      put(s, text);
      EXPECT_EQ(take(s, text.size()), text);
      s.shutdown(coir::net::shutdown_how::write);
      EXPECT_EQ(read_some(s), "");
    };
    coir::task<void> first = coir::spawn([&] { talk("first"); });
    talk("second");
    first.get();
    server.get();
  });
  EXPECT_TRUE(e) << e;
}

TEST(ExploreNetwork, AddressesAreThoseOfTheEnds) {
  const coir::exploration e = coir::explore({.schedules = 10}, [] {
    for (const char* at : {"127.0.0.1:0", "127.0.0.9:700", "[::1]:0"}) {
      connected c{endpoint(at)};
      EXPECT_EQ(c.client.remote_endpoint(), c.listener.local_endpoint());
      EXPECT_EQ(c.server.local_endpoint(), c.listener.local_endpoint());
      EXPECT_EQ(c.server.remote_endpoint(), c.client.local_endpoint());
      EXPECT_NE(c.listener.local_endpoint().port(), 0);
    }
    tcp_listener everywhere(endpoint("[::]:900"));
    tcp_stream s = tcp_stream::connect("localhost", "900");
    EXPECT_EQ(s.remote_endpoint(), endpoint("127.0.0.1:900"));
    const endpoint seen = everywhere.accept().remote_endpoint();
    EXPECT_EQ(seen.to_string(), "[::ffff:127.0.0.1]:" + std::to_string(s.local_endpoint().port()));
    EXPECT_EQ(coir::net::unix_stream::pair().first.local_endpoint().to_string(), "unix:");
  });
  EXPECT_TRUE(e) << e;
}

TEST(ExploreNetwork, ErrorsAreThoseOfTheSystem) {
  const coir::exploration e = coir::explore({.schedules = 20}, [] {
    const tcp_listener first(endpoint("127.0.0.1:80"));
    const auto code = [](std::errc c) { return std::error_code(static_cast<int>(c), std::system_category()); };
    EXPECT_EQ(error_of([] { tcp_listener again(endpoint("127.0.0.1:80")); }), code(std::errc::address_in_use));
    EXPECT_EQ(error_of([] { tcp_listener again(endpoint("0.0.0.0:80")); }), code(std::errc::address_in_use));
    const tcp_stream client = tcp_stream::connect(endpoint("127.0.0.1:80"));
    EXPECT_EQ(error_of([&] { tcp_listener l(client.local_endpoint()); }), code(std::errc::address_in_use));
    EXPECT_EQ(error_of([] { tcp_listener l(endpoint("10.0.0.1:80")); }), code(std::errc::address_not_available));
    EXPECT_EQ(error_of([] { tcp_stream::connect(endpoint("127.0.0.1:81")); }), code(std::errc::connection_refused));
    EXPECT_EQ(error_of([] { tcp_stream::connect(endpoint("10.0.0.1:80")); }), code(std::errc::network_unreachable));
    EXPECT_EQ(error_of([] { coir::net::unix_stream::connect(endpoint("unix:/nowhere")); }),
              code(std::errc::no_such_file_or_directory));
    std::error_code error;
    EXPECT_TRUE(coir::net::resolve("www.example.org", "80", error).empty());
    EXPECT_EQ(error.category(), coir::net::resolve_category());
  });
  EXPECT_TRUE(e) << e;
}

TEST(ExploreNetwork, AnEndAResetAndACloseAreSeen) {
  const coir::exploration e = coir::explore(some, [] {
    {
      connected c;
      put(c.client, "last words");
      c.client.close();
      EXPECT_EQ(take_all(c.server), "last words");
    }
    {  // bytes that nobody has read make a reset of a close
      connected c;
      put(c.client, "x");
      EXPECT_EQ(take(c.server, 1), "x");
      put(c.client, "unread");
      coir::settle();
      coir::sleep_for(1s);
      c.server.close();
      EXPECT_EQ(error_of([&] { read_some(c.client); }), std::errc::connection_reset);
      EXPECT_EQ(read_some(c.client), "");
      EXPECT_EQ(error_of([&] { put(c.client, "x"); }), std::errc::broken_pipe);
    }
    {  // a write to a peer that is gone
      connected c;
      c.server.close();
      EXPECT_EQ(read_some(c.client), "");
      put(c.client, "to nobody");
      coir::sleep_for(1s);
      EXPECT_EQ(error_of([&] { put(c.client, "x"); }), std::errc::broken_pipe);
      EXPECT_EQ(read_some(c.client), "");
    }
    {  // the same without an end before
      connected c;
      put(c.client, "x");
      coir::sleep_for(1s);
      c.server.close();
      coir::sleep_for(1s);
      EXPECT_EQ(error_of([&] { put(c.client, "x"); }), std::errc::connection_reset);
      EXPECT_EQ(error_of([&] { put(c.client, "x"); }), std::errc::broken_pipe);
      EXPECT_EQ(error_of([&] { c.client.remote_endpoint(); }), std::errc::not_connected);
    }
    {  // a reset, after what was sent before it
      connected c;
      put(c.server, "bye");
      c.server.close();
      put(c.client, "x");
      coir::sleep_for(1s);
      EXPECT_EQ(take_all(c.client), "bye");
    }
    {  // both directions are shut down on this side: what still comes is answered by a reset
      connected c;
      c.server.shutdown(coir::net::shutdown_how::both);
      put(c.client, "x");
      coir::sleep_for(1s);
      EXPECT_EQ(error_of([&] { put(c.client, "x"); }), std::errc::broken_pipe);
    }
    {  // both have ended
      connected c;
      c.server.shutdown(coir::net::shutdown_how::write);
      c.client.shutdown(coir::net::shutdown_how::write);
      coir::sleep_for(1s);
      EXPECT_EQ(error_of([&] { c.client.shutdown(coir::net::shutdown_how::write); }), std::errc::not_connected);
      EXPECT_EQ(error_of([&] { c.client.remote_endpoint(); }), std::errc::not_connected);
    }
    {  // bytes and an end, both before accept()
      tcp_listener listener(endpoint("127.0.0.1:0"));
      tcp_stream client = tcp_stream::connect(listener.local_endpoint());
      put(client, "early");
      client.close();
      coir::sleep_for(1s);
      tcp_stream server = listener.accept();
      EXPECT_EQ(take_all(server), "early");
    }
    {  // a local peer that ends first and then leaves bytes unread
      auto [one, other] = coir::net::unix_stream::pair();
      put(one, "unread");
      other.shutdown(coir::net::shutdown_how::write);
      other.close();
      EXPECT_EQ(error_of([&, &s = one] { read_some(s); }), std::errc::connection_reset);
      EXPECT_EQ(read_some(one), "");
    }
    {  // a local peer that leaves bytes unread
      auto [one, other] = coir::net::unix_stream::pair();
      put(one, "unread");
      other.close();
      EXPECT_EQ(error_of([&, &s = one] { put(s, "x"); }), std::errc::broken_pipe);
      EXPECT_EQ(error_of([&, &s = one] { read_some(s); }), std::errc::connection_reset);
      EXPECT_EQ(read_some(one), "");
    }
    {  // a close ends the reader of this side
      connected c;
      coir::task<std::error_code> reader = coir::spawn([&] { return error_of([&] { read_some(c.server); }); });
      c.server.close();
      EXPECT_EQ(reader.get(), coir::net::errc::closed);
    }
  });
  EXPECT_TRUE(e) << e;
}

TEST(ExploreNetwork, AFullBufferHoldsTheWriterUp) {
  const coir::exploration e = coir::explore({.schedules = 50}, [] {
    connected c;
    const std::string much(200'000, 'm');
    coir::task<void> writer = coir::spawn([&] {
      put(c.client, much);
      c.client.close();
    });
    coir::sleep_for(1s);
    EXPECT_FALSE(writer.ready());
    std::string got;
    for (std::string part(10'000, '\0');;) {
      const std::size_t n = c.server.read_some(std::as_writable_bytes(std::span(part)));
      if (n == 0) break;
      got.append(part, 0, n);
    }
    EXPECT_EQ(got, much);
    writer.get();
  });
  EXPECT_TRUE(e) << e;
}

TEST(ExploreNetwork, WhoWaitsForRoomIsWokenByAnyEnd) {
  const std::string much(200'000, 'm');
  const coir::exploration e = coir::explore({.schedules = 50}, [&] {
    {  // a write that fills the buffer exactly, then a select
      connected c;
      while (c.client.write_some(bytes(much)) == much.size()) {
      }
      coir::task<void> waiter = coir::spawn([&] { coir::select(coir::on_writable(c.client, [] {})); });
      coir::sleep_for(1s);
      EXPECT_FALSE(waiter.ready());
      take(c.server, 10);
      waiter.get();
    }
    {  // this side ends its direction
      connected c;
      coir::task<std::error_code> writer = coir::spawn([&] { return error_of([&] { put(c.client, much); }); });
      coir::sleep_for(1s);
      c.client.shutdown(coir::net::shutdown_how::write);
      EXPECT_EQ(writer.get(), std::errc::broken_pipe);
    }
    {  // the peer closes
      connected c;
      coir::task<std::error_code> writer = coir::spawn([&] { return error_of([&] { put(c.client, much); }); });
      coir::sleep_for(1s);
      c.server.close();
      EXPECT_EQ(writer.get(), std::errc::connection_reset);
    }
  });
  EXPECT_TRUE(e) << e;
}

TEST(ExploreNetwork, DeadlinesGoByVirtualTime) {
  const coir::exploration e = coir::explore(some, [] {
    connected c;
    const auto before = coir::clock::now();
    c.server.set_read_deadline(before + 1h);
    EXPECT_EQ(error_of([&] { read_some(c.server); }), std::errc::timed_out);
    EXPECT_EQ(coir::clock::now(), before + 1h);
    c.listener.set_deadline(before + 2h);
    EXPECT_EQ(error_of([&] { c.listener.accept(); }), std::errc::timed_out);
    EXPECT_EQ(coir::clock::now(), before + 2h);
  });
  EXPECT_TRUE(e) << e;
}

TEST(ExploreNetwork, ALoopThatTriesToAcceptEnds) {
  for (const auto strategy : {coir::pct(3), coir::random_walk(), coir::dfs(1)}) {
    const coir::exploration e = coir::explore({.schedules = 500, .strategy = strategy, .network = {.latency = 0s}}, [] {
      tcp_listener listener(endpoint("127.0.0.1:0"));
      coir::task<void> client = coir::spawn([&] { tcp_stream::connect(listener.local_endpoint()); });
      while (!listener.try_accept()) {
      }
      client.get();
    });
    EXPECT_TRUE(e) << e;
  }
}

TEST(ExploreNetwork, ACancelledReaderLeaves) {
  const coir::exploration e = coir::explore(some, [] {
    connected c;
    coir::task<void> reader = coir::spawn([&] { read_some(c.server); });
    coir::task<void> acceptor = coir::spawn([&] { c.listener.accept(); });
    reader.request_stop();
    acceptor.request_stop();
    EXPECT_THROW(reader.get(), coir::task_cancelled);
    EXPECT_THROW(acceptor.get(), coir::task_cancelled);
  });
  EXPECT_TRUE(e) << e;
}

TEST(ExploreNetwork, SelectSeesWhatIsReady) {
  const coir::exploration e = coir::explore(some, [] {
    tcp_listener listener(endpoint("127.0.0.1:0"));
    coir::task<void> client = coir::spawn([&] {
      tcp_stream s = tcp_stream::connect(listener.local_endpoint());
      put(s, "hello");
      EXPECT_EQ(take_all(s), "bye");
    });
    std::optional<tcp_stream> accepted;
    const coir::chan<int> never = coir::make_chan<int>();
    coir::select(coir::on_accept(listener, [&](tcp_stream s) { accepted = std::move(s); }),
                 coir::on_recv(never, [](std::optional<int>) { ADD_FAILURE(); }));
    ASSERT_TRUE(accepted);
    bool readable = false;
    coir::select(coir::on_readable(*accepted, [&] { readable = true; }));
    EXPECT_TRUE(readable);
    EXPECT_EQ(take(*accepted, 5), "hello");
    coir::select(coir::on_writable(*accepted, [] {}));
    put(*accepted, "bye");
    accepted->close();
    client.get();
  });
  EXPECT_TRUE(e) << e;
}

TEST(ExploreNetwork, LocalSocketsAndPipes) {
  const coir::exploration e = coir::explore(some, [] {
    coir::net::unix_listener listener(endpoint("unix:/tmp/coir-explored.sock"));
    coir::task<void> client = coir::spawn([&] {
      auto s = coir::net::unix_stream::connect(endpoint("unix:/tmp/coir-explored.sock"));
      put(s, "over the socket");
    });
    EXPECT_EQ(take_all(*std::make_unique<coir::net::unix_stream>(listener.accept())), "over the socket");
    client.get();
    listener.close();
    EXPECT_EQ(error_of([] { coir::net::unix_stream::connect(endpoint("unix:/tmp/coir-explored.sock")); }),
              std::errc::no_such_file_or_directory);

    auto [one, other] = coir::net::unix_stream::pair();
    put(one, "to the other");
    EXPECT_EQ(read_some(other), "to the other");
    other.close();
    EXPECT_EQ(error_of([&, &s = one] { put(s, "x"); }), std::errc::broken_pipe);

    {  // the name is free although a fiber has not left accept() yet
      coir::net::unix_listener first(endpoint("unix:/tmp/coir-explored.sock"));
      coir::task<std::error_code> acceptor = coir::spawn([&] { return error_of([&] { first.accept(); }); });
      coir::settle();
      first.close();
      coir::net::unix_listener second(endpoint("unix:/tmp/coir-explored.sock"));
      EXPECT_EQ(acceptor.get(), coir::net::errc::closed);
    }

    auto [in, out] = coir::make_pipe();
    coir::task<void> writer = coir::spawn([&to = out] {
      put(to, "through the pipe");
      to.close();
    });
    EXPECT_EQ(take_all(in), "through the pipe");
    writer.get();
  });
  EXPECT_TRUE(e) << e;
}

// ThreadSanitizer sees that.
TEST(ExploreNetwork, AWriteHappensBeforeTheReadOfItsBytes) {
  const coir::exploration e = coir::explore(some, [] {
    connected c;
    int published = 0;
    coir::task<void> writer = coir::spawn([&] {
      published = 1;
      put(c.client, "x");
    });
    EXPECT_EQ(take(c.server, 1), "x");
    EXPECT_EQ(published, 1);
    writer.get();
  });
  EXPECT_TRUE(e) << e;
}

// As POSIX has it for writes of up to PIPE_BUF bytes.
TEST(ExploreNetwork, LinesOfTwoWritersDoNotMixInAPipe) {
  const coir::exploration e = coir::explore({.schedules = 50}, [] {
    auto [in, out] = coir::make_pipe();
    const auto say = [&out = out](char what) {
      return [&out, what] {
        for (int i = 0; i < 100; ++i) put(out, std::string(1'000, what) + '\n');
      };
    };
    coir::wait_group writers;
    writers.go(say('a'));
    writers.go(say('b'));
    for (int i = 0; i < 200; ++i) {
      const std::string line = take(in, 1'001);
      EXPECT_EQ(line, std::string(1'000, line[0]) + '\n');
    }
    writers.wait();
  });
  EXPECT_TRUE(e) << e;
}

TEST(ExploreNetwork, ADatagramSocketOfBothKindsOfAddresses) {
  const coir::exploration e = coir::explore({.schedules = 20}, [] {
    coir::net::udp_socket server(endpoint("[::]:900")), client(endpoint("127.0.0.1:0"));
    client.connect(endpoint("127.0.0.1:900"));
    client.send(bytes("question"));
    std::array<std::byte, 100> buffer{};
    endpoint from;
    EXPECT_EQ(server.receive_from(buffer, from), 8U);
    EXPECT_EQ(from.to_string(), "[::ffff:127.0.0.1]:" + std::to_string(client.local_endpoint().port()));
    server.send_to(bytes("answer"), from);
    EXPECT_EQ(client.receive(buffer), 6U);
    client.connect(endpoint("127.0.0.1:901"));
    client.send(bytes("nobody"));
    coir::sleep_for(1s);
    client.connect(endpoint("127.0.0.1:901"));
    EXPECT_EQ(error_of([&] { client.receive(buffer); }), std::errc::connection_refused);
    client.send_to(bytes("nobody"), endpoint("127.0.0.1:902"));  // not its peer: no error
    client.set_read_deadline(coir::clock::now() + 1s);
    EXPECT_EQ(error_of([&] { client.receive(buffer); }), std::errc::timed_out);
  });
  EXPECT_TRUE(e) << e;
}

// ---- what it does not have -----------------------------------------------------------------------------------------

TEST(ExploreNetwork, DescriptorsOfTheSystemAreRefused) {
  const coir::exploration e = coir::explore({.schedules = 3}, [] {
    EXPECT_THROW(coir::watched_fd(0), std::logic_error);
    pollfd none{-1, 0, 0};
    EXPECT_THROW(coir::poll({&none, 1}, 1ms), std::logic_error);
    EXPECT_THROW(coir::process({"true"}), std::logic_error);
    EXPECT_THROW(coir::signals({10}), std::logic_error);
  });
  EXPECT_TRUE(e) << e;
}

TEST(ExploreNetwork, SocketsFromOutsideAreRefused) {
  tcp_listener outside(endpoint("127.0.0.1:0"));
  const coir::exploration e =
      coir::explore({.schedules = 3}, [&] { EXPECT_THROW(outside.accept(), std::logic_error); });
  EXPECT_TRUE(e) << e;
}

TEST(ExploreNetwork, OutsideOfExplorationsTheNetworkIsTheSystems) {
  coir::run([] {
    connected c;
    put(c.client, "real");
    EXPECT_EQ(take(c.server, 4), "real");
    EXPECT_LT(c.client.native_handle(), 100'000);
  });
}

TEST(ExploreNetwork, AStreamThatOutlivesItsScheduleIsOfNoUse) {
  std::vector<tcp_stream> left;
  const coir::exploration e = coir::explore({.schedules = 100}, [&] {
    connected c;
    left.push_back(std::move(c.client));
  });
  EXPECT_TRUE(e) << e;
  ASSERT_GE(left.size(), 100U);
  for (tcp_stream& s : left) EXPECT_EQ(error_of([&] { read_some(s); }), std::errc::bad_file_descriptor);
}

}  // namespace
