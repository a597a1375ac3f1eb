// From addresses of code to lines of the program, by addr2line, if that is there and the program has line tables
// (-g1 is enough).
#pragma once

#include <string>
#include <vector>

namespace coir::detail {

/// For each stack, given as the addresses that its calls return to, innermost first: "file:line" of the innermost call
/// that was made by the program, and not by coir or the standard library; or the name of the function that made it; or
/// nothing, if neither is known.
std::vector<std::string> lines_of_calls(const std::vector<std::vector<void*>>& stacks);

}  // namespace coir::detail
