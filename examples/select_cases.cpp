// Every kind of case that a select can have. Of those that can proceed one is chosen at random; select() returns its
// index in the order written. Handlers may be left out everywhere. A select_set is the same for a number of cases known
// only at run time, and can be waited on again.
#include <chrono>
#include <iostream>
#include <optional>
#include <stop_token>
#include <string>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>
#include <coir/select.hpp>

namespace {

using namespace std::chrono_literals;

void one_of_each() {
  auto words = coir::make_chan<std::string>(1);
  auto numbers = coir::make_chan<int>(1);
  auto events = coir::make_chan<void>(1);
  const coir::chan<int> nil;  // a nil channel's case is never ready: that is how a case is switched off
  std::stop_source stopping;

  // Nothing to receive yet: `otherwise` is taken, and select does not block.
  coir::select(coir::on_recv(words), coir::otherwise([] { std::cout << "no word yet\n"; }));

  // A receive with a handler; nullopt would mean closed and drained.
  words.send("coir");
  coir::select(
      coir::on_recv(words, [](std::optional<std::string> w) { std::cout << "word: " << w.value_or("none") << '\n'; }),
      coir::on_recv(nil));

  // A receive into a variable, and a send: the empty channel can be sent to, but not received from.
  std::optional<int> number;
  for (int i = 0; i < 2; ++i) {
    const std::size_t fired =
        coir::select(coir::on_recv(numbers, number), coir::on_send(numbers, 42, [] { std::cout << "sent\n"; }));
    std::cout << "case " << fired << ", number " << number.value_or(0) << '\n';
  }

  // A channel without values, once with an event and once closed.
  events.send();
  events.close();
  for (int i = 0; i < 2; ++i)
    coir::select(coir::on_recv(events, [](bool event) { std::cout << (event ? "event\n" : "closed\n"); }));

  coir::select(coir::on_recv(words), coir::on_timeout(2ms, [] { std::cout << "nothing within 2 ms\n"; }));

  coir::go([stopping]() mutable { stopping.request_stop(); });
  coir::select(coir::on_recv(words), coir::on_stop(stopping.get_token(), [] { std::cout << "asked to stop\n"; }));
}

/// As many cases as there are sources: a select_set.
void any_number() {
  coir::select_set sources;
  int sum = 0;
  for (int i = 1; i <= 5; ++i) {
    auto source = coir::make_chan<int>();
    coir::go([source, i] {
      for (int n = 0; n < 3; ++n) source.send(i);
    });
    sources.recv(source, [&sum](std::optional<int> v) { sum += v.value_or(0); });
  }
  for (int received = 0; received < 5 * 3; ++received) sources.wait();
  std::cout << "sum from five sources: " << sum << '\n';
}

}  // namespace

int main() {
  coir::run([] {
    one_of_each();
    any_number();
  });
}
