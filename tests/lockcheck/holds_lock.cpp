// Receives while it holds a std::mutex.
#include <cstdio>
#include <exception>
#include <mutex>

#include <coir/coir.hpp>

int main() {
  try {
    coir::run([] {
      const auto values = coir::make_chan<int>();
      coir::task<void> holder = coir::spawn([values] {
        coir::this_fiber::set_name("holder");
        std::mutex m;
        const std::lock_guard held(m);
        values.recv();
      });
      while (holder.status() != coir::task_status::blocked) coir::yield();
      values.send(7);
      holder.get();
    });
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
