// Makes up operations.
#pragma once

#include <cstdint>

#include "entropy.hpp"
#include "operation.hpp"

namespace coir_fuzz {

inline constexpr unsigned stop_sources = 2;

/// Any operation on `channels` channels. Each send takes the next number after `last_number`.
operation random_operation(entropy& choices, unsigned channels, std::uint64_t& last_number);

}  // namespace coir_fuzz
