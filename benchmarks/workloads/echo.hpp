// Round trips over TCP within one process: clients and servers are fibers of the same runtime, a pair a connection.
// (net/ has servers with a load outside, on a core of its own.)
#pragma once

#include <array>
#include <cstddef>
#include <system_error>
#include <utility>
#include <vector>

#include <coir/net.hpp>
#include <coir/runtime.hpp>
#include <coir/wait_group.hpp>

#include "counts.hpp"
#include "measure.hpp"

namespace bench {

namespace detail {

using echo_message = std::array<std::byte, echo_size>;

inline void serve_echoes(coir::net::tcp_stream peer) {
  echo_message message;
  std::error_code error;
  while (peer.read(message, error) == message.size()) peer.write(message);
}

inline void ask_echoes(coir::net::tcp_stream& server) {
  echo_message message{};
  for (int i = 0; i < echoes_a_client; ++i) {
    const auto sent = static_cast<std::byte>(i & 0xff);
    message.back() = sent;
    server.write(message);
    server.read(message);
    check(message.back() == sent, "echo");
  }
}

}  // namespace detail

inline seconds echo() {
  coir::net::tcp_listener listener(coir::net::endpoint("127.0.0.1:0"));
  std::vector<coir::net::tcp_stream> clients;
  coir::wait_group servers;
  for (int i = 0; i < echo_clients; ++i) {
    clients.push_back(coir::net::tcp_stream::connect(listener.local_endpoint()));
    servers.go([peer = listener.accept()]() mutable { detail::serve_echoes(std::move(peer)); });
  }
  const stopwatch time;
  coir::wait_group done;
  for (coir::net::tcp_stream& client : clients) done.go([&client] { detail::ask_echoes(client); });
  done.wait();
  const seconds took = time.elapsed();
  clients.clear();
  servers.wait();
  return took;
}

}  // namespace bench
