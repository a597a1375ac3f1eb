// Two ways to work on many things, a few at a time. Bounded: start a fiber for each thing when it is its turn, a
// channel serving as a semaphore; filling that channel up is waiting for the last of them. Fixed workers: they range
// over a channel of work, and closing it sends them home.
#include <algorithm>
#include <atomic>
#include <iostream>
#include <numeric>
#include <vector>

#include <coir/chan.hpp>
#include <coir/runtime.hpp>
#include <coir/this_fiber.hpp>

namespace {

constexpr int jobs = 100;
constexpr std::size_t limit = 4;

int perform(int job) {
  coir::yield();  // stands for some waiting in the middle of the work
  return job * job;
}

void bounded() {
  auto slots = coir::make_chan<void>(limit);
  std::vector<int> results(jobs);
  std::atomic<int> active{0}, most{0};

  for (int job = 0; job < jobs; ++job) {
    slots.send();        // blocks while `limit` of them are at work
    coir::go([&, job] {  // references are safe: this function waits for the last of them
      const int now = ++active;
      for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
      }
      results[static_cast<std::size_t>(job)] = perform(job);
      --active;
      slots.recv();
    });
  }
  for (std::size_t i = 0; i < limit; ++i) slots.send();  // all slots ours: nobody is at work any more

  std::cout << "bounded: " << std::accumulate(results.begin(), results.end(), 0) << ", "
            << (most <= static_cast<int>(limit) ? "never more" : "more") << " than " << limit << " at once\n";
}

void fixed_workers() {
  auto work = coir::make_chan<int>();
  auto results = coir::make_chan<int>();

  std::vector<coir::task<void>> workers;
  for (std::size_t i = 0; i < limit; ++i)
    workers.push_back(coir::spawn([=] {
      for (const int job : work) results.send(perform(job));
    }));
  coir::go([=, workers = std::move(workers)]() mutable {
    for (int job = 0; job < jobs; ++job) work.send(job);
    work.close();
    for (auto& worker : workers) worker.get();
    results.close();  // only now: a worker might still have been sending
  });

  int count = 0, sum = 0;
  for (const int result : results) ++count, sum += result;
  std::cout << "fixed workers: " << sum << " from " << count << " results\n";
}

}  // namespace

int main() {
  coir::run([] {
    bounded();
    fixed_workers();
  });
}
