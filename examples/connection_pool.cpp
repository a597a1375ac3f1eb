// A pool of connections in two channels: `idle_` holds connections nobody uses, `places_` holds one token for each that
// exists, so its capacity is the limit. Taking a connection is one select, and because waiting is communicating, the
// same select can give up after a while or be stopped.
#include <atomic>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>
#include <coir/select.hpp>

namespace {

using namespace std::chrono_literals;

struct connection {
  int number;
};
using connection_ptr = std::unique_ptr<connection>;

class pool {
 public:
  explicit pool(std::size_t limit)
      : idle_(coir::make_chan<connection_ptr>(limit)), places_(coir::make_chan<void>(limit)) {}

  /// An idle connection, a new one if there is a place for it, else whatever is released first. Null: stopped, or
  /// `patience` is over.
  connection_ptr acquire(std::chrono::milliseconds patience, std::stop_token stop = {}) {
    connection_ptr result;
    if (idle_.try_recv(result) == coir::recv_status::done) return result;  // reuse before dialling
    coir::select(coir::on_recv(idle_, [&](std::optional<connection_ptr> c) { result = std::move(*c); }),
                 coir::on_send(places_, [&] { result = dial(); }), coir::on_timeout(patience), coir::on_stop(stop));
    return result;
  }

  void release(connection_ptr c) { idle_.send(std::move(c)); }  // never blocks: there is room for all that exist

  /// The connection leaves the pool for good (it broke, or its user keeps it): its place is free again.
  void forget(connection_ptr) { places_.recv(); }

 private:
  connection_ptr dial() { return std::make_unique<connection>(connection{++dialled_}); }

  coir::chan<connection_ptr> idle_;
  coir::chan<void> places_;
  std::atomic<int> dialled_{0};
};

void use(pool& connections) {
  connection_ptr a = connections.acquire(1s);
  connection_ptr b = connections.acquire(1s);
  std::cout << "have " << a->number << " and " << b->number << '\n';

  std::cout << "a third: " << (connections.acquire(5ms) ? "yes" : "not within 5 ms") << '\n';
  std::stop_source stopped;
  stopped.request_stop();
  std::cout << "when stopped: " << (connections.acquire(1h, stopped.get_token()) ? "yes" : "no") << '\n';

  auto waiting = coir::spawn([&] {
    connection_ptr c = connections.acquire(1h);
    const int number = c->number;
    connections.forget(std::move(c));
    return number;
  });
  connections.release(std::move(a));
  std::cout << "the one who waited got " << waiting.get() << '\n';

  connections.release(std::move(b));
  a = connections.acquire(1s);
  b = connections.acquire(1s);
  std::cout << "used again: " << a->number << ", and in the place that became free: " << b->number << '\n';
}

}  // namespace

int main() {
  pool connections(2);
  coir::run([&] { use(connections); });
}
