// Runs random programs, one for each seed:
//   random_programs --mode sequential|concurrent|selects|semaphores|timers --processors N --first SEED --count N
//   [--sabotage] random_programs --mode ... --processors N --seed SEED        replays one
// A failing seed is printed with what went wrong; the exit status is then 1. With --sabotage the check itself is broken
// on purpose and the run must fail: it shows that the checks look.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

#include "concurrent.hpp"
#include "permit_program.hpp"
#include "sequential.hpp"
#include "timer_program.hpp"

namespace {

struct arguments {
  std::string_view mode = "sequential";
  unsigned processors = 1;
  std::uint64_t first = 1;
  std::uint64_t count = 100;
  bool sabotage = false;
};

[[noreturn]] void usage() {
  std::fputs(
      "usage: random_programs [--mode sequential|concurrent|selects|semaphores|timers] [--processors N] [--first SEED] "
      "\n"
      "                       [--count N] [--seed SEED] [--sabotage]\n",
      stderr);
  std::exit(2);
}

template <class Number>
Number parse(const char* text) {
  Number n{};
  const auto result = std::from_chars(text, text + std::strlen(text), n);
  if (result.ec != std::errc{} || *result.ptr != '\0') usage();
  return n;
}

arguments parse(int argc, char** argv) {
  arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--sabotage") {
      a.sabotage = true;
      continue;
    }
    if (++i == argc) usage();
    if (name == "--mode") {
      a.mode = argv[i];
    } else if (name == "--processors") {
      a.processors = parse<unsigned>(argv[i]);
    } else if (name == "--first") {
      a.first = parse<std::uint64_t>(argv[i]);
    } else if (name == "--count") {
      a.count = parse<std::uint64_t>(argv[i]);
    } else if (name == "--seed") {
      a.first = parse<std::uint64_t>(argv[i]);
      a.count = 1;
    } else {
      usage();
    }
  }
  return a;
}

using run = std::string (*)(const arguments& a, std::uint64_t seed);

struct named_run {
  std::string_view name;
  run go;
};

coir_fuzz::program_limits limits(const arguments& a) { return {.processors = a.processors, .break_model = a.sabotage}; }

constexpr named_run runs[] = {
    {"sequential", [](const arguments& a,
                      std::uint64_t seed) { return coir_fuzz::run_sequential(coir_fuzz::entropy{seed}, limits(a)); }},
    {"concurrent",
     [](const arguments& a, std::uint64_t seed) {
       return coir_fuzz::run_concurrent(seed, {.processors = a.processors, .lose_one = a.sabotage});
     }},
    {"selects",
     [](const arguments& a, std::uint64_t seed) {
       coir_fuzz::program_limits selects = limits(a);
       selects.mostly_selects = true;
       return coir_fuzz::run_sequential(coir_fuzz::entropy{seed}, selects);
     }},
    {"semaphores", [](const arguments& a,
                      std::uint64_t seed) { return coir_fuzz::run_permits(coir_fuzz::entropy{seed}, limits(a)); }},
    {"timers",
     [](const arguments& a, std::uint64_t seed) { return coir_fuzz::run_timers(coir_fuzz::entropy{seed}, limits(a)); }},
};

run find(std::string_view mode) {
  const auto* const found =
      std::find_if(std::begin(runs), std::end(runs), [&](const auto& r) { return r.name == mode; });
  if (found == std::end(runs)) usage();
  return found->go;
}

}  // namespace

int main(int argc, char** argv) {
  const arguments a = parse(argc, argv);
  const run run_one = find(a.mode);
  for (std::uint64_t seed = a.first; seed - a.first < a.count; ++seed) {
    // Written beforehand, since a crash or a hang ends the process: the last line then names the seed.
    std::fprintf(stderr, "\r--mode %.*s --processors %u --seed %llu", static_cast<int>(a.mode.size()), a.mode.data(),
                 a.processors, static_cast<unsigned long long>(seed));
    const std::string wrong = run_one(a, seed);
    if (!wrong.empty()) {
      std::fprintf(stderr, "\nFAILED: %s\n", wrong.c_str());
      return 1;
    }
  }
  std::fputs("\nall as it should be\n", stderr);
  return 0;
}
