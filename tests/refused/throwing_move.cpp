// A value whose move may throw could be lost between sender and receiver.
#include <string>

#include <coir/chan.hpp>

struct throws_when_moved {
  throws_when_moved() = default;
  throws_when_moved(throws_when_moved&&) noexcept(false) {}
};

void use() {
  const auto ch = coir::make_chan<throws_when_moved>();
  ch.send(throws_when_moved{});
}
