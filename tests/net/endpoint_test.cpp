#include <coir/endpoint.hpp>

#include <stdexcept>
#include <string>

#include "net_test.hpp"

namespace {

using coir::net::endpoint;

TEST(Endpoint, SaysWhatItWasMadeFrom) {
  for (const char* text : {"127.0.0.1:80", "0.0.0.0:0", "255.255.255.255:65535", "[::1]:80", "[::]:0", "[fe80::1%lo]:7",
                           "[2001:db8::1]:443", "unix:/run/x.sock", "unix:x", "unix:@name"}) {
    EXPECT_EQ(endpoint(text).to_string(), text);
    EXPECT_EQ(endpoint(text), endpoint(text)) << text;
    EXPECT_EQ(endpoint(endpoint(text).data(), endpoint(text).size()), endpoint(text)) << text;
  }
}

TEST(Endpoint, PortAndFamily) {
  EXPECT_EQ(endpoint("127.0.0.1:80").port(), 80);
  EXPECT_EQ(endpoint("[::1]:81").port(), 81);
  EXPECT_EQ(endpoint("unix:/x").port(), 0);
  EXPECT_EQ(endpoint("127.0.0.1:80").family(), AF_INET);
  EXPECT_EQ(endpoint("[::1]:80").family(), AF_INET6);
  EXPECT_EQ(endpoint("unix:/x").family(), AF_UNIX);
  EXPECT_EQ(endpoint().family(), AF_UNSPEC);
  EXPECT_EQ(endpoint().to_string(), "");
}

TEST(Endpoint, EqualityIsOfWhatItSays) {
  EXPECT_NE(endpoint("127.0.0.1:80"), endpoint("127.0.0.1:81"));
  EXPECT_NE(endpoint("127.0.0.1:80"), endpoint("127.0.0.2:80"));
  EXPECT_NE(endpoint("[::1]:80"), endpoint("127.0.0.1:80"));
  EXPECT_EQ(endpoint("[0:0::1]:80"), endpoint("[::1]:80"));
  EXPECT_NE(endpoint("unix:/x"), endpoint("unix:/y"));
  EXPECT_NE(endpoint("unix:@x"), endpoint("unix:x"));
  EXPECT_EQ(endpoint(), endpoint());
}

TEST(Endpoint, BadTextIsRefusedWithTheText) {
  for (const char* text : {"",
                           "127.0.0.1",
                           "127.0.0.1:",
                           "127.0.0.1:65536",
                           "127.0.0.1:-1",
                           "127.0.0.1:+1",
                           "127.0.0.1: 1",
                           "127.0.0.1:1x",
                           "127.0.0:80",
                           "localhost:80",
                           ":80",
                           "::1:80",
                           "[::1]",
                           "[::1]80",
                           "[::1]:",
                           "[::1",
                           "[]:80",
                           "[::g]:80",
                           "[::1%nosuch]:80",
                           "unix:",
                           "unix:@",
                           "256.0.0.1:80"})
    coir_test::expect_throw_message<std::invalid_argument>([&] { endpoint e{std::string_view(text)}; },
                                                           '"' + std::string(text) + '"');
}

TEST(Endpoint, PathsHaveALargestLength) {
  EXPECT_EQ(endpoint("unix:" + std::string(107, 'x')).to_string().size(), 112U);
  EXPECT_EQ(endpoint("unix:@" + std::string(107, 'x')).to_string().size(), 113U);
  EXPECT_THROW(endpoint("unix:" + std::string(108, 'x')), std::invalid_argument);
  EXPECT_THROW(endpoint("unix:@" + std::string(108, 'x')), std::invalid_argument);
  EXPECT_THROW(endpoint(std::string_view("unix:a\0b", 8)), std::invalid_argument);
  EXPECT_THROW(endpoint(std::string_view("127.0.0.1\0:80", 13)), std::invalid_argument);
}

}  // namespace
