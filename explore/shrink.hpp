// Makes a failing schedule shorter: fewer choices that are not 0, so fewer preemptions, and then fewer choices at all.
// Zeller and Hildebrandt: "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 28 (2002), over the choices that
// are not 0: first large parts of them are taken back, then smaller ones.
#pragma once

#include <cstdint>
#include <functional>

#include <coir/detail/abi.hpp>

#include "engine.hpp"

namespace coir::inline COIR_ABI::detail {

/// `run` plays a schedule, as far as the program follows it, and returns the outcome. Returns the smallest schedule
/// that has been found to fail as `failed` did: `failed` itself at worst.
outcome shrink(outcome failed, std::uint64_t budget,
               const std::function<const outcome&(const std::vector<std::uint32_t>& taken)>& run);

}  // namespace coir::detail
