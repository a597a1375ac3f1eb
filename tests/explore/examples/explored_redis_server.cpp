// redis_server under exploration: commands of different clients do not mix, replies come in order, and a protocol error
// ends its client alone.
#include "explored_servers.hpp"

namespace {

using explored::server;
using explored::tcp_stream;

void increments_add_up() {
  server s;
  coir::wait_group clients;
  for (const std::string_view key : {"a", "b"})
    clients.go([&s, key] {
      tcp_stream c = s.connect();
      const std::string set =
          "SET " + std::string(key) + " 7\r\nINCR both\r\nGET " + std::string(key) + "\r\nINCR both\r\n";
      explored::write(c, set);
      explored::expect_read(c, "+OK\r\n:");
      std::byte count[1];
      c.read(count);
      explored::expect_read(c, "\r\n$1\r\n7\r\n:");
      c.read(count);
      explored::expect_read(c, "\r\n");
    });
  clients.wait();
  tcp_stream c = s.connect();
  explored::write(c, "GET both\r\n");
  explored::expect_read(c, "$1\r\n4\r\n");
  explored::write(c, "SET x y PX 1000\r\nGET x\r\n");
  explored::expect_read(c, "+OK\r\n$1\r\ny\r\n");
  coir::sleep_for(std::chrono::seconds(2));
  explored::write(c, "GET x\r\n");
  explored::expect_read(c, "$-1\r\n");
  s.stop();
}

void others_do_not_suffer() {
  server s;
  coir::wait_group clients;
  clients.go([&s] {  // no protocol
    std::error_code error;
    tcp_stream c = s.connect(error);
    if (!error) c.write(std::as_bytes(std::span(std::string_view("*-7\r\n$\r\n"))), error);
    c.set_read_deadline(coir::clock::now() + std::chrono::minutes(10));
    std::byte part[100];
    while (!error && c.read_some(part, error) > 0) {
    }
  });
  for (int i = 0; i < 2; ++i)
    clients.go([&s] { explored::ask_despite_faults(s, "SET key value\r\nGET key\r\n", "+OK\r\n$5\r\nvalue\r\n"); });
  clients.wait();
  s.stop();
}

}  // namespace

int __wrap_main() { return explored::explore_all(increments_add_up, others_do_not_suffer); }
