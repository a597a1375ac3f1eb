// What the example servers have in common: `--port N`, a fiber for each connection, and a graceful stop.
//
// docs/network.md makes this step by step.
#pragma once

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <coir/coir.hpp>
#include <coir/io.hpp>
#include <coir/net.hpp>

namespace example {

/// The N of `--port N`; 0, any port that is free, if there are no arguments. Ends the program if there are others.
inline std::uint16_t port_argument(int argc, char** argv) {
  std::uint16_t port = 0;
  if (argc == 1) return port;
  if (argc == 3 && std::string_view(argv[1]) == "--port") {
    const std::string_view text = argv[2];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error == std::errc() && end == text.data() + text.size()) return port;
  }
  std::fprintf(stderr, "usage: %s [--port N]\n", argv[0]);
  std::exit(2);
}

/// Accepts connections and runs `serve_client(stream)` in a fiber for each, at most `most` at once: further clients
/// wait in the listener's queue. An exception ends its client alone.
template <class F>
void accept_all(coir::net::tcp_listener& listener, coir::task_group& clients, F& serve_client) {
  for (;;) {
    std::error_code error;
    coir::net::tcp_stream stream = listener.accept(error);
    if (error) {  // no descriptor is left, or no memory: the client stays in the queue until some other has gone
      std::fprintf(stderr, "accept: %s\n", error.message().c_str());
      coir::sleep_for(std::chrono::milliseconds(50));
      continue;
    }
    clients.spawn([&serve_client, stream = std::move(stream)]() mutable {
      try {
        serve_client(stream);
      } catch (const std::exception& e) {
        std::fprintf(stderr, "client: %s\n", e.what());
      }
    });
  }
}

/// Serves on this machine's own address, until SIGINT or SIGTERM. Prints the port if `port` is 0. At the stop no client
/// is accepted any more, and the calls in which the fibers of the others block throw `cancelled`; returns when all of
/// them have ended.
template <class F>
void serve(std::uint16_t port, F serve_client, std::size_t most_clients = 10'000) {
  const coir::recv_chan<int> stop = coir::signals({SIGINT, SIGTERM});
  coir::net::tcp_listener listener(coir::net::endpoint("127.0.0.1:" + std::to_string(port)));
  if (port == 0) {
    std::printf("%d\n", listener.local_endpoint().port());
    std::fflush(stdout);
  }
  // Destroyed from the last to the first; each cancels its fibers and joins them.
  coir::task_group clients;
  clients.set_limit(most_clients);
  coir::task<void> acceptor = coir::spawn([&] { accept_all(listener, clients, serve_client); });
  if (coir::select(coir::on_recv(stop), coir::on_ready(acceptor)) == 1) acceptor.get();  // throws what ended it
  acceptor.request_stop();
  acceptor.wait();
  listener.close();  // whoever comes while the others end is refused, and does not wait in vain
}

/// What a server's main() does: f(port) in a runtime.
template <class F>
int server_main(int argc, char** argv, F f) {
  const std::uint16_t port = port_argument(argc, argv);
  try {
    coir::run([&] { f(port); });
    return 0;
  } catch (const std::exception& e) {  // the port is taken, for example
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    return 1;
  }
}

}  // namespace example
