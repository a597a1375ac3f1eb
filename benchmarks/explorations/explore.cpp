// How many schedules a second does an exploration run? One program is three fibers that pass some hundred decisions:
// spawns, locks, a channel, and the end. The other is an echo server with two clients on the simulated network. One
// core: an exploration has one thread.
#include <coir/explore.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <stdexcept>

#include <benchmark/benchmark.h>

#include <coir/coir.hpp>
#include <coir/net.hpp>

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

void echo_with_two_clients() {
  using coir::net::tcp_stream;
  coir::net::tcp_listener listener(coir::net::endpoint("127.0.0.1:0"));
  for (int i = 0; i < 2; ++i) {
    coir::go([at = listener.local_endpoint()] {
      tcp_stream s = tcp_stream::connect(at);
      std::array<std::byte, 10> message{};
      for (int k = 0; k < 3; ++k) {
        s.write(message);
        s.read(message);
      }
    });
    coir::go([s = listener.accept()]() mutable {
      std::array<std::byte, 100> buffer{};
      for (std::size_t n = 0; (n = s.read_some(buffer)) > 0;) s.write(std::span(buffer).first(n));
    });
  }
}

void explore_with(benchmark::State& state, coir::exploration_strategy strategy, void (*program)()) {
  constexpr std::uint64_t schedules = 10'000;
  std::uint64_t seed = 0;
  std::uint64_t steps = 0;
  for (auto _ : state) {
    const coir::exploration e = coir::explore({.schedules = schedules, .strategy = strategy, .seed = ++seed}, program);
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

void explore_random_walk(benchmark::State& state) { explore_with(state, coir::random_walk(), some_hundred_decisions); }
BENCHMARK(explore_random_walk)->Unit(benchmark::kMillisecond);

void explore_pct(benchmark::State& state) { explore_with(state, coir::pct(3), some_hundred_decisions); }
BENCHMARK(explore_pct)->Unit(benchmark::kMillisecond);

void explore_network(benchmark::State& state) { explore_with(state, coir::pct(3), echo_with_two_clients); }
BENCHMARK(explore_network)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
