// What the libFuzzer entries have in common: the first byte of an input chooses the number of processors, the others
// are the program's choices. Each entry is a file fuzz_NAME.cpp; linked with replay_corpus.cpp it runs the committed
// inputs under any compiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "entropy.hpp"
#include "sequential.hpp"

namespace coir_fuzz {

/// Runs a program of at most so many steps; ends the process with a report if something is wrong.
template <class Run>
int run_input(const std::uint8_t* data, std::size_t size, Run run, program_limits limits) {
  static constexpr unsigned processors[] = {1, 2, 8};
  if (size < 2) return 0;
  limits.processors = processors[data[0] % 3];
  const std::string wrong = run(entropy{data + 1, size - 1}, limits);
  if (wrong.empty()) return 0;
  std::fprintf(stderr, "%s\n", wrong.c_str());
  std::abort();
}

}  // namespace coir_fuzz
