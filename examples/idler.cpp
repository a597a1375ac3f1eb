// Waiting until something is idle. "Idle now" is said by closing a channel, which wakes all who wait at once; the
// channel for the current busy spell is itself kept in a channel of capacity one, so that reading and replacing it is
// one step. A nil channel there means: idle already.
#include <chrono>
#include <iostream>
#include <vector>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>
#include <coir/select.hpp>

namespace {

using namespace std::chrono_literals;

class idler {
 public:
  idler() { spell_.send({}); }

  void set_busy(bool busy) {
    coir::chan<void> spell = *spell_.recv();
    if (busy && spell.is_nil()) {
      spell = coir::make_chan<void>();
    } else if (!busy && !spell.is_nil()) {
      spell.close();
      spell = {};
    }
    spell_.send(spell);
  }

  /// Blocks until idle (true), or until `patience` is over (false).
  bool await_idle(std::chrono::milliseconds patience) {
    const coir::chan<void> spell = *spell_.recv();
    spell_.send(spell);
    if (spell.is_nil()) return true;
    return coir::select(coir::on_recv(spell), coir::on_timeout(patience)) == 0;
  }

 private:
  coir::chan<coir::chan<void>> spell_ = coir::make_chan<coir::chan<void>>(1);
};

const char* text(bool idle) { return idle ? "idle" : "busy"; }

}  // namespace

int main() {
  coir::run([] {
    idler machine;
    std::cout << "at first: " << text(machine.await_idle(1h)) << '\n';
    machine.set_busy(true);
    std::cout << "then: " << text(machine.await_idle(2ms)) << '\n';

    std::vector<coir::task<bool>> waiters;
    for (int i = 0; i < 3; ++i) waiters.push_back(coir::spawn([&machine] { return machine.await_idle(1h); }));
    machine.set_busy(false);
    for (auto& waiter : waiters) std::cout << "a waiter saw: " << text(waiter.get()) << '\n';
  });
}
