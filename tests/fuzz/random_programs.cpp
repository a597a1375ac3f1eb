// Runs random programs of channel operations, one for each seed:
//   random_programs --mode sequential|concurrent --processors N --first SEED --count N [--sabotage]
//   random_programs --mode ... --processors N --seed SEED        replays one
// A failing seed is printed with what went wrong; the exit status is then 1. With --sabotage the check itself is broken
// on purpose and the run must fail: it shows that the checks look.
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "concurrent.hpp"
#include "sequential.hpp"

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
      "usage: random_programs [--mode sequential|concurrent] [--processors N] [--first SEED] [--count N]\n"
      "                       [--seed SEED] [--sabotage]\n",
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
  if (a.mode != "sequential" && a.mode != "concurrent") usage();
  return a;
}

std::string run_one(const arguments& a, std::uint64_t seed) {
  if (a.mode == "sequential")
    return coir_fuzz::run_sequential(coir_fuzz::entropy{seed}, {.processors = a.processors, .break_model = a.sabotage});
  return coir_fuzz::run_concurrent(seed, {.processors = a.processors, .lose_one = a.sabotage});
}

}  // namespace

int main(int argc, char** argv) {
  const arguments a = parse(argc, argv);
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
