#include "seeded.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>

#include <unistd.h>
#include <coir/dump.hpp>

namespace stress {
namespace {

constexpr double default_seconds = 3;
constexpr unsigned numbers_of_processors = 4;
constexpr unsigned patience = 200;     // seconds a program, far beyond any honest delay
constexpr unsigned time_to_dump = 10;  // seconds

char last_words[120];
std::size_t last_words_size = 0;

// The first alarm asks for a dump, the second ends the process.
void hangs(int) {
  static volatile std::sig_atomic_t asked = 0;
  if (asked != 0) std::abort();
  asked = 1;
  if (::write(STDERR_FILENO, last_words, last_words_size) < 0) std::abort();
  std::raise(SIGQUIT);
  ::alarm(time_to_dump);
}

void watch(unsigned processors, std::uint64_t seed) {
  last_words_size = static_cast<std::size_t>(std::snprintf(last_words, sizeof last_words,
                                                           "HANGS: COIR_STRESS_SEED=%llu with %u processors\n",
                                                           static_cast<unsigned long long>(seed), processors));
  ::alarm(patience);
}

double seconds_in_all() {
  const char* text = std::getenv("COIR_STRESS_SECONDS");
  return text != nullptr ? std::atof(text) : default_seconds;
}

}  // namespace

void run_seeds(unsigned processors, void (*program)(unsigned processors, std::uint64_t seed)) {
  using clock = std::chrono::steady_clock;
  static const bool once = [] {
    coir::dump_on_signal();
    return std::signal(SIGALRM, &hangs) != SIG_ERR;
  }();
  ASSERT_TRUE(once);

  const char* const one = std::getenv("COIR_STRESS_SEED");
  const std::uint64_t first =
      one != nullptr ? std::strtoull(one, nullptr, 10) : (std::uint64_t{std::random_device{}()} << 32) ^ processors;
  const auto end = clock::now() + std::chrono::duration<double>(seconds_in_all() / numbers_of_processors);
  std::printf("seeds from %llu\n", static_cast<unsigned long long>(first));
  std::fflush(stdout);
  const bool verbose = std::getenv("COIR_STRESS_SECONDS") != nullptr;  // a crash then leaves its seed behind
  std::uint64_t seed = first;
  do {
    watch(processors, seed);
    if (verbose) std::fprintf(stderr, "\rseed %llu ", static_cast<unsigned long long>(seed));
    program(processors, seed);
    ASSERT_FALSE(testing::Test::HasFailure()) << "COIR_STRESS_SEED=" << seed << " with " << processors << " processors";
    ++seed;
  } while (clock::now() < end && one == nullptr);
  ::alarm(0);
  std::printf("%llu programs\n", static_cast<unsigned long long>(seed - first));
}

}  // namespace stress
