// How many CPUs this process may use: its affinity mask, and the quotas of its cgroup and of all groups above it (v2 or
// v1), rounded up. The least counts.
#pragma once

#include <optional>
#include <string>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

unsigned usable_cpus();

/// The least CPU quota of the process's cgroup and of the groups above it, in CPUs; nothing if none has a quota. `root`
/// stands before /proc and before the mount points of the cgroup file systems, for tests.
std::optional<double> cpu_quota(const std::string& root = {});

}  // namespace coir::detail
