// Two players and a ball, on two unbuffered channels: one carries it over, the other back. A rally ends when somebody
// lets the ball drop, that is, closes the channel instead of returning it; the other's loop then ends by itself.
#include <iostream>
#include <string>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>

namespace {

struct ball {
  int hits = 0;
};

/// Plays until the ball does not come back or has been hit `tires_after` times; returns how often this player hit it.
int play(coir::recv_chan<ball> from_other, coir::send_chan<ball> to_other, int tires_after) {
  int mine = 0;
  for (ball b : from_other) {
    if (b.hits >= tires_after) break;
    ++b.hits;
    ++mine;
    to_other.send(b);
  }
  to_other.close();
  return mine;
}

void match() {
  auto over = coir::make_chan<ball>();
  auto back = coir::make_chan<ball>();

  coir::task<int> ping = coir::spawn([=] { return play(over, back, 100'000); });
  coir::task<int> pong = coir::spawn([=] { return play(back, over, 9'999); });

  over.send({});  // serve
  std::cout << "ping " << ping.get() << ", pong " << pong.get() << '\n';
}

}  // namespace

int main() { coir::run(match); }
