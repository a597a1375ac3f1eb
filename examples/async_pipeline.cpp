// Ten thousand customers, each a coroutine of a few hundred bytes instead of a fiber with a stack: they order, wait for
// their order to be cooked and pay. The cooks are fibers, which block; the till is a plain thread. All meet at the same
// channels.
#include <cstdio>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <coir/coir.hpp>

namespace {

constexpr int customers = 10'000;
constexpr int cooks = 4;

struct order {
  int customer;
  coir::send_chan<int> table;  // where the dish goes
};

/// A coroutine that others await: its caller waits, and no fiber does.
coir::async<int> meal(int customer, coir::send_chan<order> kitchen) {
  const auto table = coir::make_chan<int>();
  order mine{customer, table};
  co_await kitchen.async_send(std::move(mine));
  co_return *co_await table.async_recv();
}

coir::async<void> visit(int customer, coir::send_chan<order> kitchen, coir::send_chan<int> till, coir::mutex& door,
                        int& inside) {
  {
    co_await door.async_lock();
    const std::unique_lock held(door, std::adopt_lock);
    ++inside;
  }
  const int price = co_await meal(customer, kitchen);
  co_await till.async_send(price);
}

void cook(coir::recv_chan<order> kitchen) {
  for (const order& next : kitchen) next.table.send(next.customer % 3 + 1);
}

}  // namespace

int main() {
  coir::run([] {
    const auto kitchen = coir::make_chan<order>(16);
    const auto till = coir::make_chan<int>();
    coir::mutex door;
    int inside = 0;

    std::vector<coir::task<void>> staff;
    for (int i = 0; i < cooks; ++i) staff.push_back(coir::spawn([kitchen] { cook(kitchen); }));
    int taken = 0;
    std::thread cashier([till, &taken] {
      for (const int price : till) taken += price;
    });

    std::vector<coir::task<void>> guests;
    for (int i = 0; i < customers; ++i) guests.push_back(coir::spawn(visit(i, kitchen, till, door, inside)));
    for (coir::task<void>& guest : guests) guest.get();

    kitchen.close();
    for (coir::task<void>& each : staff) each.get();
    till.close();
    cashier.join();
    std::printf("%d customers paid %d\n", inside, taken);

    // A callback: run in a fiber of its own when the value is there.
    const auto reviews = coir::make_chan<int>();
    const auto printed = coir::make_chan<void>();
    reviews.async_recv([printed](std::optional<int> stars) {
      std::printf("a review: %d stars\n", stars.value_or(0));
      printed.send();
    });
    reviews.send(4);
    printed.recv();

    // A coroutine that is cancelled: what it awaits throws.
    coir::task<void> late = coir::spawn([kitchen = coir::make_chan<order>()]() -> coir::async<void> {
      try {
        co_await meal(0, kitchen);
      } catch (const coir::cancelled&) {
        std::puts("closed: the last customer leaves");
        throw;
      }
    });
    coir::yield();
    late.request_stop();
    try {
      late.get();
    } catch (const coir::task_cancelled&) {
      std::puts("good night");
    }
  });
}
