// A deadlock that is found and reported: two philosophers, each holding the fork that the other one waits for. When no
// fiber can ever run again, run() unwinds the blocked ones, so that their destructors run, and throws coir::deadlock,
// whose what() says of each what it waited on and where it was started.
#include <algorithm>
#include <iostream>
#include <string>

#include <coir/chan.hpp>
#include <coir/error.hpp>
#include <coir/runtime.hpp>
#include <coir/this_fiber.hpp>

namespace {

/// A fork is a channel of capacity one; who has received its token has the fork.
coir::chan<void> make_fork() {
  auto fork = coir::make_chan<void>(1);
  fork.send();
  return fork;
}

struct chair {
  ~chair() { left.send(); }
  coir::chan<void> left;
};

void dine(const std::string& name, coir::chan<void> first, coir::chan<void> second, coir::chan<void> at_table,
          coir::chan<void> both_hold_one, coir::chan<void> left) {
  coir::this_fiber::set_name(name);
  const chair leave_at_end{left};
  first.recv();
  at_table.send();
  both_hold_one.recv();
  second.recv();  // never comes
}

void dinner(coir::chan<void> left) {
  const auto a = make_fork(), b = make_fork();
  auto at_table = coir::make_chan<void>(), both_hold_one = coir::make_chan<void>();
  coir::go([=] { dine("plato", a, b, at_table, both_hold_one, left); });
  coir::go([=] { dine("kant", b, a, at_table, both_hold_one, left); });
  at_table.recv();
  at_table.recv();
  both_hold_one.close();
}

}  // namespace

int main() {
  auto left = coir::make_chan<void>(2);
  try {
    coir::run([=] { dinner(left); });
  } catch (const coir::deadlock& e) {
    // The first line says what happened; after it comes one line for each blocked fiber.
    const std::string report = e.what();
    std::cout << report.substr(0, report.find('\n')) << '\n';
    std::cout << "blocked fibers: " << std::count(report.begin(), report.end(), '\n') << '\n';
    for (const char* name : {"plato", "kant"})
      std::cout << name << (report.find(name) != std::string::npos ? " is" : " is not") << " in the report\n";
  }
  std::cout << "left the table: " << left.len() << '\n';
}
