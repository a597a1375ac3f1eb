// A program as a user would write it: one header, one library; a fiber, a channel, a select, a mutex.
#include <chrono>
#include <coir/coir.hpp>
#include <coir/version.hpp>
#include <cstdio>
#include <mutex>
#include <optional>

static_assert(COIR_VERSION >= 100);

int main() {
  const int sum = coir::run([] {
    auto numbers = coir::make_chan<int>();
    auto done = coir::make_chan<void>();
    coir::mutex lock;
    int total = 0;

    coir::go([numbers] {
      for (int i = 1; i <= 10; ++i) numbers.send(i);
      numbers.close();
    });
    coir::task<int> adder = coir::spawn([&, numbers, done] {
      int count = 0;
      for (const int n : numbers) {
        const std::scoped_lock guard(lock);
        total += n;
        ++count;
      }
      done.close();
      return count;
    });

    bool ended = false;
    coir::select(coir::on_recv(done, [&](bool open) { ended = !open; }),
                 coir::on_timeout(std::chrono::minutes(1), [] { std::puts("nobody closed the channel"); }));
    if (!ended || adder.get() != 10) return -1;
    const std::scoped_lock guard(lock);
    return total;
  });
  std::printf("the sum is %d\n", sum);
  return sum == 55 ? 0 : 1;
}
