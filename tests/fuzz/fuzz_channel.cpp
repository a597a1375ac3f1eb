// The libFuzzer entry: the bytes choose the steps of a sequential random program. Also linked with replay_corpus.cpp,
// which runs the committed corpus under any compiler.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "sequential.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static constexpr unsigned processors[] = {1, 2, 8};
  if (size < 2) return 0;
  coir_fuzz::entropy choices{data + 1, size - 1};
  const std::string wrong = coir_fuzz::run_sequential(choices, {.processors = processors[data[0] % 3], .steps = 300});
  if (!wrong.empty()) {
    std::fprintf(stderr, "%s\n", wrong.c_str());
    std::abort();
  }
  return 0;
}
