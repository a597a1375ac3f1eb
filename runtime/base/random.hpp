// A small, fast, statistically sound generator (SplitMix64's output function over a Weyl sequence; Steele, Lea, Flood,
// "Fast Splittable Pseudorandom Number Generators", 2014). One a processor, so that a seeded run can be repeated.
#pragma once

#include <cstdint>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

class random_source {
 public:
  explicit random_source(std::uint64_t seed) noexcept : state_(seed) {}

  std::uint64_t operator()() noexcept {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

}  // namespace coir::detail
