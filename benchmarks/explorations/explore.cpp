// How many schedules a second does an exploration run? The program is three fibers that pass some hundred decisions:
// spawns, locks, a channel, and the end. One core: an exploration has one thread.
#include <coir/explore.hpp>

#include <cstdint>
#include <mutex>
#include <stdexcept>

#include <benchmark/benchmark.h>

#include <coir/coir.hpp>

namespace {

void some_hundred_decisions() {
  coir::mutex lock;
  int count = 0;
  const coir::chan<int> results = coir::make_chan<int>(2);
  for (int i = 0; i < 2; ++i) {
    coir::go([&, results] {
      for (int k = 0; k < 23; ++k) {
        const std::scoped_lock held(lock);
        ++count;
      }
      results.send(1);
    });
  }
  const int ended = results.recv().value_or(0) + results.recv().value_or(0);
  if (ended != 2 || count != 46) throw std::logic_error("wrong");
}

void explore_with(benchmark::State& state, coir::exploration_strategy strategy) {
  constexpr std::uint64_t schedules = 10'000;
  std::uint64_t seed = 0;
  std::uint64_t steps = 0;
  for (auto _ : state) {
    const coir::exploration e =
        coir::explore({.schedules = schedules, .strategy = strategy, .seed = ++seed}, some_hundred_decisions);
    if (!e || e.schedules() != schedules) {
      state.SkipWithError("an exploration failed, or ended early");
      return;
    }
    steps = e.steps();
  }
  using benchmark::Counter;
  state.counters["schedules/s"] = Counter(schedules, Counter::kIsIterationInvariantRate);
  state.counters["decisions"] = static_cast<double>(steps);
}

void explore_random_walk(benchmark::State& state) { explore_with(state, coir::random_walk()); }
BENCHMARK(explore_random_walk)->Unit(benchmark::kMillisecond);

void explore_pct(benchmark::State& state) { explore_with(state, coir::pct(3)); }
BENCHMARK(explore_pct)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
