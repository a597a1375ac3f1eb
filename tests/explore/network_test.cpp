// The simulated network of explorations: streams, listeners, datagrams and pipes as the real ones; what may happen in
// another order does in some schedule, and faults happen as often as the options allow.
#include <coir/explore.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>

#include <coir/coir.hpp>
#include <coir/io.hpp>
#include <coir/net.hpp>

using namespace std::chrono_literals;
using coir::failure_kind;
using coir::net::endpoint;
using coir::net::tcp_listener;
using coir::net::tcp_stream;

namespace {

const coir::explore_options some{.schedules = 500, .strategy = coir::pct(3)};

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

template <class Stream>
void write(Stream& to, std::string_view text) {
  to.write(bytes(text));
}

template <class Stream>
std::string read(Stream& from, std::size_t n) {
  std::string text(n, '\0');
  from.read(std::as_writable_bytes(std::span(text)));
  return text;
}

template <class Stream>
std::string read_some(Stream& from) {
  std::string text(100, '\0');
  text.resize(from.read_some(std::as_writable_bytes(std::span(text))));
  return text;
}

/// Until the end.
template <class Stream>
std::string read_all(Stream& from) {
  std::string text;
  for (std::string part; !(part = read_some(from)).empty();) text += part;
  return text;
}

template <class F>
std::error_code error_of(F&& f) {
  try {
    f();
  } catch (const std::system_error& e) {
    return e.code();
  }
  return {};
}

/// Explores f, which must not fail, and returns the values that it has left in `seen` in all schedules.
template <class T>
std::set<T> all_seen(const coir::explore_options& o, const std::function<T()>& f) {
  std::set<T> seen;
  const coir::exploration e = coir::explore(o, [&] { seen.insert(f()); });
  EXPECT_TRUE(e) << e;
  return seen;
}

/// Two ends of a TCP connection, and what the client sends first.
struct connected {
  explicit connected(const endpoint& at = endpoint("127.0.0.1:0")) : listener(at) {
    client = tcp_stream::connect(listener.local_endpoint());
    server = listener.accept();
  }
  tcp_listener listener;
  tcp_stream client, server;
};

// ---- streams -------------------------------------------------------------------------------------------------------

TEST(ExploreNetwork, AnEchoServerEchoes) {
  const coir::exploration e = coir::explore(some, [] {
    tcp_listener listener(endpoint("127.0.0.1:0"));
    coir::task<void> server = coir::spawn([&] {
      coir::wait_group clients;
      for (int i = 0; i < 2; ++i)
        clients.go([s = listener.accept()]() mutable {
          for (std::string part; !(part = read_some(s)).empty();) write(s, part);
        });
      clients.wait();
    });
    const auto talk = [&](std::string_view text) {
      tcp_stream s = tcp_stream::connect(listener.local_endpoint());
      write(s, text);
      EXPECT_EQ(read(s, text.size()), text);
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
      write(c.client, "last words");
      c.client.close();
      EXPECT_EQ(read_all(c.server), "last words");
    }
    {  // bytes that nobody has read make a reset of a close
      connected c;
      write(c.client, "x");
      EXPECT_EQ(read(c.server, 1), "x");
      write(c.client, "unread");
      coir::settle();
      coir::sleep_for(1s);
      c.server.close();
      EXPECT_EQ(error_of([&] { read_some(c.client); }), std::errc::connection_reset);
      EXPECT_EQ(read_some(c.client), "");
      EXPECT_EQ(error_of([&] { write(c.client, "x"); }), std::errc::broken_pipe);
    }
    {  // a write to a peer that is gone
      connected c;
      c.server.close();
      EXPECT_EQ(read_some(c.client), "");
      write(c.client, "to nobody");
      coir::sleep_for(1s);
      EXPECT_EQ(error_of([&] { write(c.client, "x"); }), std::errc::broken_pipe);
      EXPECT_EQ(read_some(c.client), "");
    }
    {  // the same without an end before
      connected c;
      write(c.client, "x");
      coir::sleep_for(1s);
      c.server.close();
      coir::sleep_for(1s);
      EXPECT_EQ(error_of([&] { write(c.client, "x"); }), std::errc::connection_reset);
      EXPECT_EQ(error_of([&] { write(c.client, "x"); }), std::errc::broken_pipe);
      EXPECT_EQ(error_of([&] { c.client.remote_endpoint(); }), std::errc::not_connected);
    }
    {  // a reset, after what was sent before it
      connected c;
      write(c.server, "bye");
      c.server.close();
      write(c.client, "x");
      coir::sleep_for(1s);
      EXPECT_EQ(read_all(c.client), "bye");
    }
    {  // both directions are shut down on this side: what still comes is answered by a reset
      connected c;
      c.server.shutdown(coir::net::shutdown_how::both);
      write(c.client, "x");
      coir::sleep_for(1s);
      EXPECT_EQ(error_of([&] { write(c.client, "x"); }), std::errc::broken_pipe);
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
      write(client, "early");
      client.close();
      coir::sleep_for(1s);
      tcp_stream server = listener.accept();
      EXPECT_EQ(read_all(server), "early");
    }
    {  // a local peer that ends first and then leaves bytes unread
      auto [one, other] = coir::net::unix_stream::pair();
      write(one, "unread");
      other.shutdown(coir::net::shutdown_how::write);
      other.close();
      EXPECT_EQ(error_of([&, &s = one] { read_some(s); }), std::errc::connection_reset);
      EXPECT_EQ(read_some(one), "");
    }
    {  // a local peer that leaves bytes unread
      auto [one, other] = coir::net::unix_stream::pair();
      write(one, "unread");
      other.close();
      EXPECT_EQ(error_of([&, &s = one] { write(s, "x"); }), std::errc::broken_pipe);
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
      write(c.client, much);
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
      read(c.server, 10);
      waiter.get();
    }
    {  // this side ends its direction
      connected c;
      coir::task<std::error_code> writer = coir::spawn([&] { return error_of([&] { write(c.client, much); }); });
      coir::sleep_for(1s);
      c.client.shutdown(coir::net::shutdown_how::write);
      EXPECT_EQ(writer.get(), std::errc::broken_pipe);
    }
    {  // the peer closes
      connected c;
      coir::task<std::error_code> writer = coir::spawn([&] { return error_of([&] { write(c.client, much); }); });
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
      write(s, "hello");
      EXPECT_EQ(read_all(s), "bye");
    });
    std::optional<tcp_stream> accepted;
    const coir::chan<int> never = coir::make_chan<int>();
    coir::select(coir::on_accept(listener, [&](tcp_stream s) { accepted = std::move(s); }),
                 coir::on_recv(never, [](std::optional<int>) { ADD_FAILURE(); }));
    ASSERT_TRUE(accepted);
    bool readable = false;
    coir::select(coir::on_readable(*accepted, [&] { readable = true; }));
    EXPECT_TRUE(readable);
    EXPECT_EQ(read(*accepted, 5), "hello");
    coir::select(coir::on_writable(*accepted, [] {}));
    write(*accepted, "bye");
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
      write(s, "over the socket");
    });
    EXPECT_EQ(read_all(*std::make_unique<coir::net::unix_stream>(listener.accept())), "over the socket");
    client.get();
    listener.close();
    EXPECT_EQ(error_of([] { coir::net::unix_stream::connect(endpoint("unix:/tmp/coir-explored.sock")); }),
              std::errc::no_such_file_or_directory);

    auto [one, other] = coir::net::unix_stream::pair();
    write(one, "to the other");
    EXPECT_EQ(read_some(other), "to the other");
    other.close();
    EXPECT_EQ(error_of([&, &s = one] { write(s, "x"); }), std::errc::broken_pipe);

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
      write(to, "through the pipe");
      to.close();
    });
    EXPECT_EQ(read_all(in), "through the pipe");
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
      write(c.client, "x");
    });
    EXPECT_EQ(read(c.server, 1), "x");
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
        for (int i = 0; i < 100; ++i) write(out, std::string(1'000, what) + '\n');
      };
    };
    coir::wait_group writers;
    writers.go(say('a'));
    writers.go(say('b'));
    for (int i = 0; i < 200; ++i) {
      const std::string line = read(in, 1'001);
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

// ---- orders --------------------------------------------------------------------------------------------------------

TEST(ExploreNetwork, ConnectionsOvertakeEachOther) {
  const std::set<std::string> seen = all_seen<std::string>(some, [] {
    tcp_listener listener(endpoint("127.0.0.1:0"));
    tcp_stream a = tcp_stream::connect(listener.local_endpoint());
    tcp_stream a_there = listener.accept();
    tcp_stream b = tcp_stream::connect(listener.local_endpoint());
    tcp_stream b_there = listener.accept();
    const coir::chan<char> order = coir::make_chan<char>(2);
    coir::task<void> first = coir::spawn([&] { order.send(read(a_there, 1)[0]); });
    coir::task<void> second = coir::spawn([&] { order.send(read(b_there, 1)[0]); });
    write(a, "a");
    write(b, "b");
    first.get();
    second.get();
    return std::string{*order.recv(), *order.recv()};
  });
  EXPECT_EQ(seen, (std::set<std::string>{"ab", "ba"}));
}

TEST(ExploreNetwork, ASocketMayBeBoundTooLate) {
  const auto connects = [] {
    coir::chan<int> begun = coir::make_chan<int>(1);
    coir::task<void> server = coir::spawn([&] {
      begun.send(1);
      tcp_listener listener(endpoint("127.0.0.1:80"));
      coir::sleep_for(1s);
    });
    begun.recv();
    const std::error_code error = error_of([] { tcp_stream::connect(endpoint("127.0.0.1:80")); });
    server.get();
    return error ? error.message() : "";
  };
  EXPECT_EQ(all_seen<std::string>(some, connects),
            (std::set<std::string>{"", std::make_error_code(std::errc::connection_refused).message()}));
}

TEST(ExploreNetwork, AnyListenerOfASharedPortMayGetAConnection) {
  const std::set<int> seen = all_seen<int>(some, [] {
    tcp_listener first(endpoint("127.0.0.1:80"), {.reuse_port = true});
    tcp_listener second(endpoint("127.0.0.1:80"), {.reuse_port = true});
    const tcp_stream s = tcp_stream::connect(endpoint("127.0.0.1:80"));
    return first.try_accept() ? 1 : second.try_accept() ? 2 : 0;
  });
  EXPECT_EQ(seen, (std::set<int>{1, 2}));
}

TEST(ExploreNetwork, AWriteMayArriveInTwoParts) {
  const auto first_part = [] {
    connected c;
    write(c.client, "0123456789");
    c.client.close();
    const std::string first = read_some(c.server);
    EXPECT_EQ(first + read_all(c.server), "0123456789");
    return first.size();
  };
  const std::set<std::size_t> seen = all_seen<std::size_t>(some, first_part);
  EXPECT_EQ(seen, (std::set<std::size_t>{1, 5, 10}));
  const std::set<std::size_t> whole =
      all_seen<std::size_t>({.schedules = 100, .network = {.split = false}}, first_part);
  EXPECT_EQ(whole, (std::set<std::size_t>{10}));
}

TEST(ExploreNetwork, ATimeoutMayComeBeforeTheAnswer) {
  const auto answered = [] {
    connected c;
    coir::task<void> server = coir::spawn([&] {
      read(c.server, 1);
      write(c.server, "a");
    });
    write(c.client, "q");
    c.client.set_read_deadline(coir::clock::now() + 5ms);
    const bool late = error_of([&] { read(c.client, 1); }) == std::errc::timed_out;
    server.get();
    return !late;
  };
  EXPECT_EQ(all_seen<bool>(some, answered), (std::set<bool>{false, true}));
  EXPECT_EQ(all_seen<bool>({.schedules = 100, .network = {.latency = 0s}}, answered), (std::set<bool>{true}));
}

TEST(ExploreNetwork, DatagramsOvertakeEachOther) {
  const std::set<std::string> seen = all_seen<std::string>(some, [] {
    coir::net::udp_socket to(endpoint("127.0.0.1:0")), from(endpoint("127.0.0.1:0"));
    from.send_to(bytes("a"), to.local_endpoint());
    from.send_to(bytes("b"), to.local_endpoint());
    std::string order;
    for (int i = 0; i < 2; ++i) {
      std::array<std::byte, 10> datagram{};
      endpoint sender;
      EXPECT_EQ(to.receive_from(datagram, sender), 1U);
      EXPECT_EQ(sender, from.local_endpoint());
      order += static_cast<char>(datagram[0]);
    }
    return order;
  });
  EXPECT_EQ(seen, (std::set<std::string>{"ab", "ba"}));
}

// ---- faults --------------------------------------------------------------------------------------------------------

/// "" or the error that the client or server gets in a conversation.
std::string converse() {
  std::error_code error;
  tcp_listener listener(endpoint("127.0.0.1:0"));
  coir::task<std::error_code> server = coir::spawn([&] {
    tcp_stream s = listener.accept();
    std::error_code e;
    std::string text(4, '\0');
    s.read(std::as_writable_bytes(std::span(text)), e);
    if (!e) s.write(bytes("pong"), e);
    return e;
  });
  tcp_stream s = tcp_stream::connect(listener.local_endpoint(), error);
  s.set_read_deadline(coir::clock::now() + 2h);  // if the server's answer is given up, this end does not learn of it
  std::string text(4, '\0');
  if (!error) s.write(bytes("ping"), error);
  if (!error) s.read(std::as_writable_bytes(std::span(text)), error);
  s.close();
  if (error) server.request_stop();
  try {
    const std::error_code of_server = server.get();
    if (!error) error = of_server;
  } catch (const coir::task_cancelled&) {
  }
  return error ? error.message() : "";
}

TEST(ExploreNetwork, ConnectionsAreResetIfTheOptionsSaySo) {
  EXPECT_EQ(all_seen<std::string>(some, converse), (std::set<std::string>{""}));
  coir::explore_options o = some;
  o.network.resets = 1;
  const std::set<std::string> seen = all_seen<std::string>(o, converse);
  EXPECT_TRUE(seen.contains("")) << "a fault happens in some schedules alone";
  EXPECT_TRUE(seen.contains(std::make_error_code(std::errc::connection_reset).message()));
}

TEST(ExploreNetwork, ACutOffDelaysAndAnotherEndsTheConnection) {
  const auto takes = [] {
    const auto before = coir::clock::now();
    const std::string failed = converse();
    return failed.empty() ? std::to_string((coir::clock::now() - before) / 1min) : failed;
  };
  coir::explore_options o = some;
  o.network.cut_offs = 1;
  EXPECT_EQ(all_seen<std::string>(o, takes), (std::set<std::string>{"0", "1"}));
  o.network.cut_off_time = 1h;
  const std::set<std::string> seen = all_seen<std::string>(o, takes);
  EXPECT_EQ(seen, (std::set<std::string>{"0", std::make_error_code(std::errc::timed_out).message()}));
}

TEST(ExploreNetwork, NothingComesAfterAConnectionWasGivenUp) {
  coir::explore_options o = some;
  o.network = {.cut_offs = 1, .cut_off_time = 1h};
  const std::set<std::string> seen = all_seen<std::string>(o, [] {
    std::error_code error;
    tcp_listener listener(endpoint("127.0.0.1:0"));
    tcp_stream client = tcp_stream::connect(listener.local_endpoint(), error);
    if (error) return "not connected: " + error.message();
    tcp_stream server = listener.accept();
    coir::task<std::error_code> writer = coir::spawn([&] {
      const std::string much(200'000, 'm');
      return error_of([&] { write(server, much); });
    });
    client.write(bytes("x"), error);
    coir::sleep_for(2h);
    client.set_read_deadline(coir::clock::now() + 1h);  // if the server has given up, the client does not learn of it
    std::string got(300'000, '\0');
    const std::size_t n = client.read_some(std::as_writable_bytes(std::span(got)), error);
    if (n != 0 || !error) {
      client.close();
      EXPECT_TRUE(writer.get());
      return std::string("bytes");
    }
    std::error_code again;
    EXPECT_EQ(client.read_some(std::as_writable_bytes(std::span(got)), again), 0U);
    client.close();
    EXPECT_TRUE(writer.get());  // it is not held up for ever
    return error.message();
  });
  EXPECT_TRUE(seen.contains("bytes"));
  EXPECT_TRUE(seen.contains(std::make_error_code(std::errc::timed_out).message()));
}

TEST(ExploreNetwork, DatagramsAreLostIfTheOptionsSaySo) {
  const auto received = [] {
    coir::net::udp_socket to(endpoint("127.0.0.1:0")), from(endpoint("127.0.0.1:0"));
    for (int i = 0; i < 3; ++i) from.send_to(bytes("x"), to.local_endpoint());
    to.set_read_deadline(coir::clock::now() + 1s);
    int n = 0;
    std::array<std::byte, 10> datagram{};
    for (std::error_code error; to.receive(datagram, error), !error;) ++n;
    return n;
  };
  EXPECT_EQ(all_seen<int>(some, received), (std::set<int>{3}));
  coir::explore_options o = some;
  o.network.losses = 2;
  EXPECT_EQ(all_seen<int>(o, received), (std::set<int>{1, 2, 3}));
}

// ---- bugs that it finds --------------------------------------------------------------------------------------------

/// A client that takes what one read returns for the whole answer.
void reads_once() {
  connected c;
  coir::task<void> server = coir::spawn([&] {
    read(c.server, 1);
    write(c.server, "answer");
  });
  write(c.client, "?");
  EXPECT_EQ(read_some(c.client), "answer");
  server.get();
}

/// A pool that gives a connection back after a timeout, with the answer still to come.
void answer_of_before() {
  connected c;
  coir::task<void> server = coir::spawn([&] {
    for (std::string q; !(q = read_some(c.server)).empty();) write(c.server, q);
    c.server.close();
  });
  const auto ask = [&](std::string_view q) {
    write(c.client, q);
    c.client.set_read_deadline(coir::clock::now() + 5ms);
    try {
      EXPECT_EQ(read(c.client, 1), q);
    } catch (const std::system_error&) {
    }
  };
  ask("1");
  ask("2");
  c.client.shutdown(coir::net::shutdown_how::write);
  c.client.set_read_deadline({});
  read_all(c.client);
  server.get();
}

TEST(ExploreNetwork, BugsOfClientsAreFoundAndPlayedAgain) {
  for (const auto& bug : {&reads_once, &answer_of_before}) {
    for (const std::uint64_t seed : {1U, 2U, 3U}) {
      const coir::exploration e = coir::explore({.schedules = 10'000, .strategy = coir::pct(3), .seed = seed}, bug);
      ASSERT_EQ(e.kind(), failure_kind::assertion) << e;
      for (int i = 0; i < 100; ++i) ASSERT_EQ(coir::replay(e.schedule(), bug).kind(), failure_kind::assertion);
    }
  }
}

TEST(ExploreNetwork, ExhaustiveSearchEnds) {
  const coir::exploration e = coir::explore({.schedules = 1'000'000, .strategy = coir::dfs(1)}, [] {
    connected c;
    coir::task<void> server = coir::spawn([&] { write(c.server, read(c.server, 1)); });
    write(c.client, "x");
    EXPECT_EQ(read(c.client, 1), "x");
    server.get();
  });
  EXPECT_TRUE(e) << e;
  EXPECT_TRUE(e.exhausted());
}

TEST(ExploreNetwork, AnAcceptThatNobodyEndsIsADeadlock) {
  const coir::exploration e = coir::explore({.schedules = 10}, [] {
    tcp_listener listener(endpoint("127.0.0.1:0"));
    listener.accept();
  });
  EXPECT_EQ(e.kind(), failure_kind::deadlock);
  EXPECT_NE(e.report().find("accept"), std::string::npos) << e;
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
    write(c.client, "real");
    EXPECT_EQ(read(c.server, 4), "real");
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
