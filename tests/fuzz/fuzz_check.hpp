// How a fuzz entry says that something does not hold.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace coir_fuzz {

inline void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

}  // namespace coir_fuzz
