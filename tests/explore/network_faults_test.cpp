// What may happen in another order on the simulated network does in some schedule; faults happen as often as the
// options allow; and bugs that need either are found.
#include "network_test.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

using namespace std::chrono_literals;
using namespace network_test;
using coir::failure_kind;

namespace {

// ---- orders --------------------------------------------------------------------------------------------------------

TEST(ExploreNetwork, ConnectionsOvertakeEachOther) {
  const std::set<std::string> seen = all_seen<std::string>(some, [] {
    tcp_listener listener(endpoint("127.0.0.1:0"));
    tcp_stream a = tcp_stream::connect(listener.local_endpoint());
    tcp_stream a_there = listener.accept();
    tcp_stream b = tcp_stream::connect(listener.local_endpoint());
    tcp_stream b_there = listener.accept();
    const coir::chan<char> order = coir::make_chan<char>(2);
    coir::task<void> first = coir::spawn([&] { order.send(take(a_there, 1)[0]); });
    coir::task<void> second = coir::spawn([&] { order.send(take(b_there, 1)[0]); });
    put(a, "a");
    put(b, "b");
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
    put(c.client, "0123456789");
    c.client.close();
    const std::string first = read_some(c.server);
    EXPECT_EQ(first + take_all(c.server), "0123456789");
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
      take(c.server, 1);
      put(c.server, "a");
    });
    put(c.client, "q");
    c.client.set_read_deadline(coir::clock::now() + 5ms);
    const bool late = error_of([&] { take(c.client, 1); }) == std::errc::timed_out;
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
      return error_of([&] { put(server, much); });
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
    take(c.server, 1);
    put(c.server, "answer");
  });
  put(c.client, "?");
  EXPECT_EQ(read_some(c.client), "answer");
  server.get();
}

/// A pool that gives a connection back after a timeout, with the answer still to come.
void answer_of_before() {
  connected c;
  coir::task<void> server = coir::spawn([&] {
    for (std::string q; !(q = read_some(c.server)).empty();) put(c.server, q);
    c.server.close();
  });
  const auto ask = [&](std::string_view q) {
    put(c.client, q);
    c.client.set_read_deadline(coir::clock::now() + 5ms);
    try {
      EXPECT_EQ(take(c.client, 1), q);
    } catch (const std::system_error&) {
    }
  };
  ask("1");
  ask("2");
  c.client.shutdown(coir::net::shutdown_how::write);
  c.client.set_read_deadline({});
  take_all(c.client);
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
    coir::task<void> server = coir::spawn([&] { put(c.server, take(c.server, 1)); });
    put(c.client, "x");
    EXPECT_EQ(take(c.client, 1), "x");
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

}  // namespace
