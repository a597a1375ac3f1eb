// The libFuzzer entry for semaphores and what is made as they are.
#include <cstddef>
#include <cstdint>

#include "fuzz_input.hpp"
#include "permit_program.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return coir_fuzz::run_input(data, size, coir_fuzz::run_permits, {.steps = 300});
}
