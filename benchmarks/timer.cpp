// What does a timer cost: set and stopped, moved to a later time, as a call in a fiber of its own; and with a hundred
// thousand others pending?
#include <chrono>
#include <cstddef>
#include <vector>

#include <benchmark/benchmark.h>
#include <coir/chan.hpp>
#include <coir/runtime.hpp>
#include <coir/time.hpp>

#include "support.hpp"
#include "workloads/timer.hpp"

namespace {

using namespace std::chrono_literals;

/// Runs one(i) again and again, in a fiber, beside so many pending timers.
template <class One>
void in_fiber(benchmark::State& state, std::size_t pending, One one) {
  coir::options o;
  o.processors = 1;
  coir::run(o, [&] {
    std::vector<coir::timer> others;
    for (std::size_t i = 0; i < pending; ++i) others.emplace_back(1h + std::chrono::milliseconds(i * 7919 % 3'600'000));
    for (auto _ : state) one();
  });
}

void timer_set_and_stop(benchmark::State& state) {
  in_fiber(state, static_cast<std::size_t>(state.range(0)), [] {
    coir::timer t{2h};
    benchmark::DoNotOptimize(t.stop());
  });
}
BENCHMARK(timer_set_and_stop)->ArgName("pending")->Arg(0)->Arg(100'000);

void timer_reset(benchmark::State& state) {
  in_fiber(state, static_cast<std::size_t>(state.range(0)), [t = coir::timer{2h}]() mutable { t.reset(2h); });
}
BENCHMARK(timer_reset)->ArgName("pending")->Arg(0)->Arg(100'000);

void after_func_of_no_delay(benchmark::State& state) {
  in_fiber(state, 0, [done = coir::make_chan<void>()] {
    const coir::timer t = coir::after_func(0ns, [&] { done.send(); });
    done.recv();
  });
}
BENCHMARK(after_func_of_no_delay);

void after_func_set_and_stop(benchmark::State& state) {
  bench::measure(state, bench::timers_in_turn, bench::set_and_stop);
}
BENCHMARK(after_func_set_and_stop)->Apply(bench::at_processors);

void after_func_reset(benchmark::State& state) { bench::measure(state, bench::timer_resets, bench::reset_timer); }
BENCHMARK(after_func_reset)->Apply(bench::at_processors);

void after_func_set_100000_then_stop_them(benchmark::State& state) {
  bench::measure(state, bench::timers_at_once * bench::timer_batches, bench::set_and_stop_all);
}
BENCHMARK(after_func_set_100000_then_stop_them)->Apply(bench::at_processors);

void timer_of_a_plain_thread(benchmark::State& state) {
  for (auto _ : state) {
    coir::timer t{2h};
    benchmark::DoNotOptimize(t.stop());
  }
}
BENCHMARK(timer_of_a_plain_thread);

}  // namespace

BENCHMARK_MAIN();
