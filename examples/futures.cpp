// Two ways to start work now and take its result later: a function that returns a channel with room for one value, and
// a plain blocking function that the caller starts with spawn(). In both, start everything before waiting for anything.
// A task also carries an exception, and cannot be forgotten: one that goes out of scope is stopped and joined.
#include <chrono>
#include <iostream>
#include <stdexcept>
#include <string>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>
#include <coir/sleep.hpp>

namespace {

using namespace std::chrono_literals;

/// What takes long, written as such: it blocks its fiber and returns, or throws.
std::string fetch(const std::string& name) {
  coir::sleep_for(name.size() * 1ms);
  if (name.starts_with("no-")) throw std::runtime_error("not found: " + name);
  return "page of " + name;
}

/// The channel way. Capacity one lets the fiber end even if the caller has lost interest. Closed without a value: not
/// found.
coir::recv_chan<std::string> fetch_later(std::string name) {
  auto result = coir::make_chan<std::string>(1);
  coir::go([result, name = std::move(name)] {
    try {
      result.send(fetch(name));
    } catch (const std::runtime_error&) {
    }
    result.close();
  });
  return result;
}

void with_channels() {
  const auto a = fetch_later("alpha.example");  // not fetch_later("...").recv(): that would wait before starting b
  const auto b = fetch_later("beta.example");
  const auto c = fetch_later("no-such.example");
  std::cout << a.recv().value() << ", " << b.recv().value() << '\n' << c.recv().value_or("nothing") << '\n';
}

void with_tasks() {
  coir::task<std::string> a = coir::spawn([] { return fetch("alpha.example"); });
  coir::task<std::string> b = coir::spawn([] { return fetch("beta.example"); });
  coir::task<std::string> c = coir::spawn([] { return fetch("no-such.example"); });
  std::cout << a.get() << ", " << b.get() << '\n';
  try {
    std::cout << c.get() << '\n';
  } catch (const std::runtime_error& e) {
    std::cout << e.what() << '\n';
  }
}

void losing_interest() {
  const coir::task<void> never_joined = coir::spawn([] { coir::sleep_for(24h); });
  // Its destructor asks it to stop; the sleep throws coir::cancelled; no fiber is left behind.
}

}  // namespace

int main() {
  coir::run([] {
    with_channels();
    with_tasks();
    losing_interest();
  });
  std::cout << "all fibers ended\n";
}
