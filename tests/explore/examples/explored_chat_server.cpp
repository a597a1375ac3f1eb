// chat_server under exploration: all members are told the same lines, whole and in the same order; a member whose
// connection breaks leaves the room.
#include <vector>

#include "explored_servers.hpp"

namespace {

using explored::server;
using explored::tcp_stream;

/// The lines that come, until the end or an error.
std::vector<std::string> lines_from(tcp_stream& from, std::error_code& error) {
  std::string text;
  std::byte part[100];
  for (std::size_t n = 0; (n = from.read_some(part, error)) > 0;) text.append(reinterpret_cast<const char*>(part), n);
  std::vector<std::string> lines;
  for (std::size_t end = 0; (end = text.find('\n')) != text.npos; text.erase(0, end + 1))
    lines.push_back(text.substr(0, end));
  explored::expect(error || text.empty(), "a line is not whole: " + text);
  return lines;
}

/// Those that members have said.
std::vector<std::string> said(std::vector<std::string> lines) {
  std::erase_if(lines, [](const std::string& l) { return l.find(": ") == l.npos || l.starts_with('*'); });
  return lines;
}

void all_hear_the_same() {
  server s;
  coir::latch both_are_here(2);
  coir::latch both_have_spoken(2);
  std::vector<std::string> heard[2];
  coir::wait_group clients;
  for (const int i : {0, 1})
    clients.go([&, i] {
      const std::string name = i == 0 ? "ann" : "bob";
      tcp_stream c = s.connect();
      explored::write(c, name + "\n");
      coir::task<void> listener = coir::spawn([&, i] {
        std::error_code error;
        heard[i] = lines_from(c, error);
        explored::expect(!error, "an error instead of an end");
      });
      coir::sleep_for(std::chrono::seconds(1));  // the name has come
      both_are_here.arrive_and_wait();
      explored::write(c, "hello from " + name + "\nand again\n");
      coir::sleep_for(std::chrono::seconds(1));
      both_have_spoken.arrive_and_wait();
      explored::write(c, "/quit\n");
      listener.get();
    });
  clients.wait();
  s.stop();
  explored::expect(said(heard[0]) == said(heard[1]), "they hear different things");
  explored::expect(said(heard[0]).size() == 4, "not four lines");
}

void who_breaks_off_leaves() {
  server s;
  coir::wait_group clients;
  for (const char* name : {"ann\n", "bob\n"})
    clients.go([&s, name] {
      std::error_code error;
      tcp_stream c = s.connect(error);
      c.set_read_deadline(coir::clock::now() + std::chrono::minutes(10));
      if (!error) c.write(std::as_bytes(std::span(std::string_view(name))), error);
      if (!error) c.write(std::as_bytes(std::span(std::string_view("hello\n/quit\n"))), error);
      if (!error) lines_from(c, error);
    });
  clients.wait();
  coir::sleep_for(std::chrono::hours(1));  // the server has learnt of it
  std::error_code error;
  tcp_stream last = s.connect(error);
  if (!error) last.write(std::as_bytes(std::span(std::string_view("last\n/quit\n"))), error);
  std::vector<std::string> lines;
  if (!error) lines = lines_from(last, error);
  for (const std::string& l : lines)
    explored::expect(!l.starts_with("* here:") || l == "* here: last", "somebody is still there");
  s.stop();
}

}  // namespace

int __wrap_main() { return explored::explore_all(all_hear_the_same, who_breaks_off_leaves); }
