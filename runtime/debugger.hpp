// What debuggers start from (debugger.cpp).
#pragma once

namespace coir::detail {

/// The registry's std::vector<scheduler*>; null before the first runtime. Written once, when that is made.
extern const void* runtimes_for_debuggers;

}  // namespace coir::detail
