// What does a value out of a generator cost, and a generator itself? Beside it the same values from a loop written by
// hand, a stackless C++20 coroutine, Boost.Coroutine2 if its headers are there, and a fiber with a channel, which is
// what a Go program would take.
#include <coroutine>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

#include <benchmark/benchmark.h>
#include <coir/chan.hpp>
#include <coir/coroutine.hpp>
#include <coir/generator.hpp>
#include <coir/runtime.hpp>

#include "workloads/generator.hpp"

#if __has_include(<boost/coroutine2/all.hpp>)
#include <boost/coroutine2/all.hpp>
#define WITH_BOOST_COROUTINE2
#endif

namespace {

using value = std::uint64_t;

void count_values(benchmark::State& state) { state.SetItemsProcessed(state.iterations()); }

// ---- the least that a stackless generator can be -------------------------------------------------------------------

class stackless {
 public:
  struct promise_type {
    value current = 0;
    stackless get_return_object() { return stackless(handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(value v) noexcept {
      current = v;
      return {};
    }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  using handle = std::coroutine_handle<promise_type>;

  explicit stackless(handle h) : handle_(h) {}
  stackless(stackless&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  stackless& operator=(stackless&&) = delete;
  ~stackless() {
    if (handle_) handle_.destroy();
  }

  bool advance() {
    handle_.resume();
    return !handle_.done();
  }
  value current() const { return handle_.promise().current; }

 private:
  handle handle_;
};

// ---- one value after another ---------------------------------------------------------------------------------------

class hand_written {
 public:
  value next() { return last_ = bench::successor(last_); }

 private:
  value last_ = 0;
};

void values_hand_written(benchmark::State& state) {
  hand_written source;
  for (auto _ : state) benchmark::DoNotOptimize(source.next());
  count_values(state);
}
BENCHMARK(values_hand_written);

stackless stackless_values() {
  for (hand_written source;;) co_yield source.next();
}

void values_stackless(benchmark::State& state) {
  stackless g = stackless_values();
  for (auto _ : state) {
    g.advance();
    benchmark::DoNotOptimize(g.current());
  }
  count_values(state);
}
BENCHMARK(values_stackless);

void values_generator(benchmark::State& state) {
  coir::generator<value> g = bench::endless_values();
  auto each = g.begin();
  for (auto _ : state) {
    benchmark::DoNotOptimize(*each);
    ++each;
  }
  count_values(state);
}
BENCHMARK(values_generator);

void values_generator_in_a_fiber(benchmark::State& state) {
  coir::run([&] { values_generator(state); });
}
BENCHMARK(values_generator_in_a_fiber);

void values_coroutine_send(benchmark::State& state) {
  coir::coroutine<value, value> c = bench::successors();
  value v = *c.next();
  for (auto _ : state) benchmark::DoNotOptimize(v = *c.send(v));
  count_values(state);
}
BENCHMARK(values_coroutine_send);

#if defined(WITH_BOOST_COROUTINE2)
void values_boost_coroutine2(benchmark::State& state) {
  boost::coroutines2::coroutine<value>::pull_type source([](auto& sink) {
    for (hand_written inner;;) sink(inner.next());
  });
  for (auto _ : state) {
    benchmark::DoNotOptimize(source.get());
    source();
  }
  count_values(state);
}
BENCHMARK(values_boost_coroutine2);
#endif

void values_fiber_and_channel(benchmark::State& state) {
  coir::options one;
  one.processors = 1;
  coir::run(one, [&] {
    coir::chan<value> values = coir::make_chan<value>();
    coir::task<void> source = coir::spawn([=] {
      try {
        for (hand_written inner;;) values.send(inner.next());
      } catch (const coir::closed_channel&) {
      }
    });
    for (auto _ : state) benchmark::DoNotOptimize(values.recv());
    values.close();
    source.get();
  });
  count_values(state);
}
BENCHMARK(values_fiber_and_channel);

// ---- from the depth of a recursion: a balanced tree of 65,535 nodes, all values ------------------------------------

constexpr int depth = 16;

template <class Visit>
void visit_tree(int levels, value v, Visit& visit) {
  if (levels == 0) return;
  visit_tree(levels - 1, 2 * v, visit);
  visit(value{v});
  visit_tree(levels - 1, 2 * v + 1, visit);
}

constexpr std::int64_t nodes = (std::int64_t{1} << depth) - 1;

void tree_callback(benchmark::State& state) {
  for (auto _ : state) {
    value sum = 0;
    auto add = [&](value v) { benchmark::DoNotOptimize(sum += v); };
    visit_tree(depth, 1, add);
  }
  state.SetItemsProcessed(state.iterations() * nodes);
}
BENCHMARK(tree_callback);

stackless stackless_tree(int levels, value v) {
  if (levels == 0) co_return;
  for (stackless left = stackless_tree(levels - 1, 2 * v); left.advance();) co_yield left.current();
  co_yield v;
  for (stackless right = stackless_tree(levels - 1, 2 * v + 1); right.advance();) co_yield right.current();
}

void tree_stackless(benchmark::State& state) {
  for (auto _ : state) {
    value sum = 0;
    for (stackless g = stackless_tree(depth, 1); g.advance();) benchmark::DoNotOptimize(sum += g.current());
  }
  state.SetItemsProcessed(state.iterations() * nodes);
}
BENCHMARK(tree_stackless);

void tree_generator(benchmark::State& state) {
  for (auto _ : state) {
    value sum = 0;
    coir::generator<value> g([](auto& yield) { visit_tree(depth, 1, yield); });
    for (value v : g) benchmark::DoNotOptimize(sum += v);
  }
  state.SetItemsProcessed(state.iterations() * nodes);
}
BENCHMARK(tree_generator);

#if defined(WITH_BOOST_COROUTINE2)
void tree_boost_coroutine2(benchmark::State& state) {
  for (auto _ : state) {
    value sum = 0;
    boost::coroutines2::coroutine<value>::pull_type source([](auto& sink) { visit_tree(depth, 1, sink); });
    for (value v : source) benchmark::DoNotOptimize(sum += v);
  }
  state.SetItemsProcessed(state.iterations() * nodes);
}
BENCHMARK(tree_boost_coroutine2);
#endif

// ---- a generator's whole life: made, asked for one value, unwound --------------------------------------------------

void life_stackless(benchmark::State& state) {
  for (auto _ : state) {
    stackless g = stackless_values();
    g.advance();
    benchmark::DoNotOptimize(g.current());
  }
}
BENCHMARK(life_stackless);

void life_of_one_that_ends(benchmark::State& state) {
  for (auto _ : state) {
    coir::generator<value> g([](auto& yield) { yield(value{1}); });
    for (value v : g) benchmark::DoNotOptimize(v);
  }
}
BENCHMARK(life_of_one_that_ends);

void life_of_one_that_is_unwound(benchmark::State& state) {
  for (auto _ : state) {
    coir::generator<value> g = bench::endless_values();
    benchmark::DoNotOptimize(g.next());
  }
}
BENCHMARK(life_of_one_that_is_unwound);

#if defined(WITH_BOOST_COROUTINE2)
void life_boost_coroutine2(benchmark::State& state) {
  for (auto _ : state) {
    boost::coroutines2::coroutine<value>::pull_type source([](auto& sink) { sink(1); });
    benchmark::DoNotOptimize(source.get());
    source();
  }
}
BENCHMARK(life_boost_coroutine2);
#endif

}  // namespace

BENCHMARK_MAIN();
