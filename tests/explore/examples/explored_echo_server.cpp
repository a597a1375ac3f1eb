// echo_server under exploration: each client gets back what it has sent, whatever happens to the others.
#include "explored_servers.hpp"

namespace {

using explored::server;
using explored::tcp_stream;

void each_gets_its_own() {
  server s;
  coir::wait_group clients;
  for (const std::string_view text : {"first client", "second client"})
    clients.go([&s, text] {
      tcp_stream c = s.connect();
      explored::write(c, text);
      explored::expect_read(c, text);
      c.shutdown(coir::net::shutdown_how::write);
      std::byte one[1];
      explored::expect(c.read_some(one) == 0, "an end is expected");
    });
  clients.wait();
  s.stop();
}

void a_fault_is_no_fault_of_the_server() {
  server s;
  coir::wait_group clients;
  for (const std::string_view text : {"first client", "second client", "third client"})
    clients.go([&s, text] { explored::ask_despite_faults(s, text, text); });
  clients.wait();
  s.stop();
}

}  // namespace

int __wrap_main() { return explored::explore_all(each_gets_its_own, a_fault_is_no_fault_of_the_server); }
