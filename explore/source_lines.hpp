// Turns addresses of code into lines of the program, by addr2line, if that is there and the program has line tables
// (-g1 is enough).
#pragma once

#include <string>
#include <vector>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

/// The addresses that the calls of a stack return to, innermost first.
using call_addresses = std::vector<void*>;

/// For each stack: "file:line" of each call that was made by the program, and not by coir or the standard library,
/// innermost first; or the name of the function that made it, if that is all that is known.
std::vector<std::vector<std::string>> lines_of_calls(const std::vector<call_addresses>& stacks);

}  // namespace coir::detail
