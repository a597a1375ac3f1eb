// How fast is a long pipeline: the first 2,000 primes? per_op is a prime.
#include <benchmark/benchmark.h>

#include "support.hpp"
#include "workloads/sieve.hpp"

namespace {

void sieve(benchmark::State& state) { bench::measure(state, bench::sieve_primes, bench::sieve); }
BENCHMARK(sieve)->Apply(bench::at_processors);

}  // namespace

BENCHMARK_MAIN();
