// An exploration in a program outside the tree: it finds an update that is lost.
#include <coir/coir.hpp>
#include <coir/explore.hpp>

#include <cstdlib>
#include <iostream>
#include <mutex>
#include <stdexcept>

int main() {
  const coir::exploration e = coir::explore({.schedules = 1'000, .strategy = coir::pct(3), .seed = 1}, [] {
    coir::mutex lock;
    int count = 0;
    const auto add = [&] {
      int seen = 0;
      {
        const std::scoped_lock held(lock);
        seen = count;
      }
      const std::scoped_lock held(lock);
      count = seen + 1;
    };
    coir::wait_group both;
    both.go(add);
    both.go(add);
    both.wait();
    if (count != 2) throw std::runtime_error("an update is lost");
  });
  if (e) {
    std::cerr << "the update that is lost was not found\n";
    return EXIT_FAILURE;
  }
}
