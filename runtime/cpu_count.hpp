// How many CPUs this process may use: its affinity mask, and the quota of its cgroup (v2 or v1), rounded up.
#pragma once

namespace coir::detail {

unsigned usable_cpus();

}  // namespace coir::detail
