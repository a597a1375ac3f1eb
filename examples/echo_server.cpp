// An echo server: what a client sends comes back to it. `echo_server --port N`; without, or with N = 0, it takes a port
// that is free and prints it. SIGTERM stops it.
//
// The code is that of a server with one client: each has a fiber of its own, which blocks in read and write. A client
// that is silent for too long is dropped, and so is one that does not read.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>

#include <coir/net.hpp>
#include <coir/simulate.hpp>
#include <coir/this_fiber.hpp>

#include "common/serve.hpp"

namespace {

using namespace std::chrono_literals;

void echo(coir::net::tcp_stream& client) {
  std::byte buffer[16 * 1024];
  // A client that never stops to send never blocks its fiber, which then is never cancelled: so the fiber asks.
  while (!coir::this_fiber::stop_token().stop_requested()) {
    std::error_code error;
    client.set_read_deadline(coir::clock::now() + 10min);
    const std::size_t n = client.read_some(buffer, error);
    if (error || n == 0) return;

    client.set_write_deadline(coir::clock::now() + 30s);
    client.write(std::span(buffer).first(n), error);
    if (error) return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  return example::server_main(argc, argv, [](std::uint16_t port) { example::serve(port, echo); });
}
