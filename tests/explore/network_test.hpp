// What the tests of the simulated network share.
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include <coir/coir.hpp>
#include <coir/explore.hpp>
#include <coir/net.hpp>

#include "net_test.hpp"

namespace network_test {

using coir::net::endpoint;
using coir::net::tcp_listener;
using coir::net::tcp_stream;
using net_test::bytes;
using net_test::error_of;
using net_test::put;
using net_test::take;
using net_test::take_all;

inline const coir::explore_options some{.schedules = 500, .strategy = coir::pct(3)};

template <class Stream>
std::string read_some(Stream& from) {
  std::string text(100, '\0');
  text.resize(from.read_some(std::as_writable_bytes(std::span(text))));
  return text;
}

/// Explores f, which must not fail, and returns the values that it has left in `seen` in all schedules.
template <class T>
std::set<T> all_seen(const coir::explore_options& o, const std::function<T()>& f) {
  std::set<T> seen;
  const coir::exploration e = coir::explore(o, [&] { seen.insert(f()); });
  EXPECT_TRUE(e) << e;
  return seen;
}

/// Two ends of a TCP connection.
struct connected {
  explicit connected(const endpoint& at = endpoint("127.0.0.1:0")) : listener(at) {
    client = tcp_stream::connect(listener.local_endpoint());
    server = listener.accept();
  }
  tcp_listener listener;
  tcp_stream client, server;
};

}  // namespace network_test
