// A queue from which one can take several items at once, without a condition variable. Its state travels through a
// channel of capacity one: whoever has received it has the queue to himself until he sends it back. A waiter does not
// look again and again: he leaves word of how many items he needs and a channel to send them to, first come first
// served.
#include <deque>
#include <iostream>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>

namespace {

using items = std::vector<int>;

class item_queue {
 public:
  item_queue() { state_.send(std::make_unique<state>()); }

  void put(int item) {
    auto s = *state_.recv();
    s->stored.push_back(item);
    serve(*s);
    state_.send(std::move(s));
  }

  int get() { return get_many(1).front(); }
  items get_many(std::size_t count) { return *order(count).recv(); }

  /// Queues up for `count` items at once; they will come on the channel returned.
  coir::recv_chan<items> order(std::size_t count) {
    request r{count, coir::make_chan<items>(1)};
    auto s = *state_.recv();
    s->requests.push_back(r);
    serve(*s);
    state_.send(std::move(s));
    return r.reply;
  }

 private:
  struct request {
    std::size_t count;
    coir::chan<items> reply;  // holds one value, so that serving never blocks
  };
  struct state {
    std::deque<int> stored;
    std::deque<request> requests;
  };

  static void serve(state& s) {
    while (!s.requests.empty() && s.stored.size() >= s.requests.front().count) {
      const auto end = s.stored.begin() + static_cast<std::ptrdiff_t>(s.requests.front().count);
      s.requests.front().reply.send(items(s.stored.begin(), end));
      s.stored.erase(s.stored.begin(), end);
      s.requests.pop_front();
    }
  }

  coir::chan<std::unique_ptr<state>> state_ = coir::make_chan<std::unique_ptr<state>>(1);
};

void print(const char* who, const items& taken) {
  std::cout << who << ':';
  for (const int i : taken) std::cout << ' ' << i;
  std::cout << '\n';
}

}  // namespace

int main() {
  coir::run([] {
    item_queue queue;
    const auto three = queue.order(3);  // queued up before anything is there
    const auto two = queue.order(2);
    coir::go([queue]() mutable {  // a copy shares the channel, and so the queue
      for (int i = 1; i <= 9; ++i) queue.put(i);
    });
    print("three", *three.recv());
    print("two", *two.recv());
    print("one", {queue.get()});
    print("the rest", queue.get_many(3));
  });
}
