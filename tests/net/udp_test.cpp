// udp_socket: datagrams are whole, and know where they come from.
#include <coir/net.hpp>

#include <array>
#include <set>
#include <string>
#include <vector>

#include "net_test.hpp"

namespace {

using coir::net::endpoint;
using coir::net::errc;
using coir::net::udp_socket;
using coir_test::scaled;
using coir_test::until_blocked;
using net_test::any_port;
using net_test::bytes;
using net_test::error_of;
using net_test::other;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

class udp_test : public net_test::io_test {};

std::string receive(udp_socket& s) {
  std::array<std::byte, 2000> room;
  const std::size_t n = s.receive(room);
  return {reinterpret_cast<const char*>(room.data()), n};
}

TEST_P(udp_test, ADatagramIsWholeAndKnowsItsSender) {
  both([] {
    udp_socket a(any_port()), b(any_port());
    endpoint from;
    std::array<std::byte, 100> room;
    a.send_to(bytes("hello"), b.local_endpoint());
    a.send_to(bytes("world!"), b.local_endpoint());
    EXPECT_EQ(b.receive_from(room, from), 5U);
    EXPECT_EQ(from, a.local_endpoint());
    EXPECT_EQ(b.receive_from(room, from), 6U);
    b.send_to(bytes(""), from);
    EXPECT_EQ(a.receive_from(room, from), 0U);
    EXPECT_EQ(from, b.local_endpoint());
  });
}

TEST_P(udp_test, WhatDoesNotFitIsLost) {
  run([] {
    udp_socket a(any_port()), b(any_port());
    a.send_to(bytes("abcdef"), b.local_endpoint());
    a.send_to(bytes("next"), b.local_endpoint());
    std::array<std::byte, 3> room;
    EXPECT_EQ(b.receive(room), 3U);
    EXPECT_EQ(receive(b), "next");
  });
}

TEST_P(udp_test, AConnectedSocketSendsToItsPeerAndHearsNobodyElse) {
  both([] {
    udp_socket a(any_port()), b(any_port()), stranger(any_port());
    a.connect(b.local_endpoint());
    stranger.send_to(bytes("ignored"), a.local_endpoint());
    a.send(bytes("question"));
    EXPECT_EQ(receive(b), "question");
    b.send_to(bytes("answer"), a.local_endpoint());
    EXPECT_EQ(receive(a), "answer");
  });
}

TEST_P(udp_test, APeerThatIsNotThereIsRefusedAndTheSocketGoesOn) {
  run([] {
    udp_socket a(any_port());
    {
      const udp_socket gone(any_port());
      a.connect(gone.local_endpoint());
    }
    a.send(bytes("x"));
    EXPECT_EQ(error_of([&] { receive(a); }), std::errc::connection_refused);
    udp_socket b(any_port());
    a.connect(b.local_endpoint());
    a.send(bytes("y"));
    EXPECT_EQ(receive(b), "y");
  });
}

TEST_P(udp_test, AReceiverWaitsForADatagram) {
  both([] {
    udp_socket a(any_port()), b(any_port());
    std::string got;
    other reader([&] { got = receive(b); });
    a.send_to(bytes("late"), b.local_endpoint());
    reader.join();
    EXPECT_EQ(got, "late");
  });
}

TEST_P(udp_test, DeadlinesCancellationAndClose) {
  run([] {
    udp_socket s(any_port());
    s.set_read_deadline(steady_clock::now() + 1ms);
    EXPECT_EQ(error_of([&] { receive(s); }), std::errc::timed_out);
    s.set_read_deadline(std::nullopt);
    EXPECT_THROW(coir::timeout(1ms, [&] { receive(s); }), coir::timed_out);
    std::vector<coir::task<std::error_code>> waiting;
    for (int i = 0; i < 3; ++i) waiting.push_back(coir::spawn([&] { return error_of([&] { receive(s); }); }));
    until_blocked(waiting);
    s.close();
    for (auto& t : waiting) EXPECT_EQ(t.get(), errc::closed);
    EXPECT_EQ(error_of([&] { s.send(bytes("x")); }), errc::closed);
    EXPECT_EQ(error_of([&] { s.connect(any_port()); }), errc::closed);
  });
}

TEST_P(udp_test, AnAddressThatIsTakenAndADatagramThatIsTooLarge) {
  run([] {
    udp_socket s(any_port());
    EXPECT_EQ(error_of([&] { const udp_socket second(s.local_endpoint()); }), std::errc::address_in_use);
    EXPECT_THROW(udp_socket(endpoint("unix:/x")), std::invalid_argument);
    const std::string huge(70'000, 'x');
    EXPECT_EQ(error_of([&] { s.send_to(bytes(huge), s.local_endpoint()); }), std::errc::message_size);
    std::error_code error;
    s.send(bytes("to nobody"), error);
    EXPECT_EQ(error, std::errc::destination_address_required);
  });
}

TEST_P(udp_test, ManyShareASocketAndNoDatagramComesTwice) {
  run([] {
    udp_socket from(any_port()), to(any_port());
    const int all = scaled(500) + 20;
    std::set<std::string> got;
    coir::mutex lock;
    std::atomic<int> left{all};
    std::vector<coir::task<void>> readers;
    for (int i = 0; i < 4; ++i)
      readers.push_back(coir::spawn([&] {
        for (std::error_code error; !error;) {
          std::array<std::byte, 64> room;
          const std::size_t n = to.receive(room, error);
          if (error) return;
          const std::lock_guard held(lock);
          EXPECT_TRUE(got.emplace(reinterpret_cast<const char*>(room.data()), n).second);
          --left;
        }
      }));
    for (int i = 0; i < all; ++i) {
      from.send_to(bytes(std::to_string(i)), to.local_endpoint());
      coir_test::until([&] { return left < all - i + 50; });  // so that the system drops none
      if (i % 16 == 0) coir::yield();
    }
    coir_test::until([&] { return left == 0; });
    to.close();
    for (auto& t : readers) t.get();
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, udp_test, coir_test::processors, coir_test::processors_name);

}  // namespace
