#include <coir/coir.hpp>
#include <cstdio>

int main() {
  const int answer = coir::run([] {
    auto numbers = coir::make_chan<int>();
    coir::go([numbers] { numbers.send(42); });
    return numbers.recv().value_or(-1);
  });
  std::printf("received %d\n", answer);
  return answer == 42 ? 0 : 1;
}
