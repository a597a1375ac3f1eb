// Hello, channels: one fiber greets whoever is named on a channel, and main prints what comes back.
// An unbuffered channel hands each value over directly; a buffered one keeps what nobody has taken yet; closing a
// channel ends the loop of whoever ranges over it.
#include <iostream>
#include <string>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>

namespace {

void greet(coir::recv_chan<std::string> names, coir::send_chan<std::string> greetings) {
  for (const std::string& name : names) greetings.send("hello, " + name);
  greetings.close();
}

void main_fiber() {
  auto names = coir::make_chan<std::string>();       // unbuffered: send returns once somebody has taken the value
  auto greetings = coir::make_chan<std::string>(3);  // buffered: send returns while there is room for the value

  coir::go([=] { greet(names, greetings); });

  for (const char* name : {"ada", "grace", "barbara"}) names.send(name);
  names.close();
  for (const std::string& line : greetings) std::cout << line << '\n';

  if (!greetings.recv()) std::cout << "closed and drained: recv() has nothing\n";

  // What was sent before the close is still received after it, in order.
  auto numbers = coir::make_chan<int>(2);
  numbers.send(1);
  numbers.send(2);
  numbers.close();
  std::cout << "buffered: " << numbers.len() << " of " << numbers.cap() << ", first " << numbers.recv().value() << '\n';
}

}  // namespace

int main() { coir::run(main_fiber); }
