// What the servers in C++ do at their start.
#pragma once

#include <sys/resource.h>

namespace bench {

/// Ten thousand connections need as many descriptors; the usual limit is 1,024.
inline void allow_many_descriptors() {
  ::rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace bench
