// What madvise() can do in kernels newer than Debian 12's headers.
#pragma once

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

inline constexpr int madv_populate_write = 23;
inline constexpr int madv_guard_install = 102;

}  // namespace coir::detail
