// The libFuzzer entry for timers and tickers.
#include <cstddef>
#include <cstdint>

#include "fuzz_input.hpp"
#include "timer_program.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return coir_fuzz::run_input(data, size, coir_fuzz::run_timers, {.steps = 100});
}
