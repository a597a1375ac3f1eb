// The libFuzzer entry for selects, wide ones among them.
#include <cstddef>
#include <cstdint>

#include "fuzz_input.hpp"
#include "sequential.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return coir_fuzz::run_input(data, size, coir_fuzz::run_sequential, {.steps = 300, .mostly_selects = true});
}
