// Primes by a growing pipeline: each prime found adds a fiber that lets through only what it does not divide.
// The generator never ends by itself; on_main_return::cancel makes run() unwind it and all the filters once main has
// seen enough.
#include <iostream>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>

namespace {

coir::recv_chan<int> from_two_up() {
  auto out = coir::make_chan<int>();
  coir::go([out] {
    for (int n = 2;; ++n) out.send(n);
  });
  return out;
}

coir::recv_chan<int> without_multiples_of(int prime, coir::recv_chan<int> in) {
  auto out = coir::make_chan<int>();
  coir::go([=] {
    for (const int n : in)
      if (n % prime != 0) out.send(n);
  });
  return out;
}

void print_primes(int count) {
  coir::recv_chan<int> numbers = from_two_up();
  for (int i = 0; i < count; ++i) {
    const int prime = numbers.recv().value();
    std::cout << prime << (i + 1 < count ? ' ' : '\n');
    numbers = without_multiples_of(prime, numbers);
  }
}

}  // namespace

int main() {
  coir::options options;
  options.when_main_returns = coir::on_main_return::cancel;
  coir::run(options, [] { print_primes(30); });
}
