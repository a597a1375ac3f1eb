// Makes up operations.
#pragma once

#include <cstdint>

#include "entropy.hpp"
#include "operation.hpp"

namespace coir_fuzz {

inline constexpr unsigned stop_sources = 2;

struct mix {
  unsigned channels = 1;
  bool mostly_selects = false;
};

/// Any operation on that many channels. Each send takes the next number after `last_number`.
operation random_operation(entropy& choices, const mix& of, std::uint64_t& last_number);

}  // namespace coir_fuzz
