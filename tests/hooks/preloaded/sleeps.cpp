// A program that is linked with coir alone. If libcoir_hooks is preloaded, its fiber sleeps as a fiber does, and is
// woken when it is cancelled. The argument: how long it sleeps, in milliseconds.
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include <unistd.h>

#include <coir/coir.hpp>

int main(int argc, char** argv) {
  const auto time = static_cast<::useconds_t>(argc == 2 ? std::atoi(argv[1]) : 0) * 1000;
  coir::options one;
  one.processors = 1;
  coir::run(one, [time] {
    std::atomic<bool> begun{false};
    coir::task<void> sleeper = coir::spawn([&] {
      begun = true;
      ::usleep(time);
    });
    bool parked = false;
    while (!begun || (!parked && sleeper.status() == coir::task_status::running)) {
      coir::yield();
      parked = sleeper.status() == coir::task_status::blocked;
    }
    std::puts(parked ? "the sleeper is parked" : "the sleeper keeps its thread");
  });
}
