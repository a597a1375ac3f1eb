#include "base/cpu_count.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

#include <sched.h>

#include <coir/detail/abi.hpp>

namespace coir::inline COIR_ABI::detail {

namespace {

unsigned by_affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) return static_cast<unsigned>(CPU_COUNT(&set));
  return std::thread::hardware_concurrency();  // more CPUs than a cpu_set_t holds
}

/// Whether a list with commas, as in the options of a mount, has that entry.
bool lists(const std::string& all, const std::string& entry) {
  return ("," + all + ",").find("," + entry + ",") != std::string::npos;
}

/// A mounted cgroup file system that may have quotas. The directory `where` shows the group `group` of the hierarchy:
/// in a container this is often the container's own group.
struct cgroup_mount {
  bool v2 = false;
  std::string group;
  std::string where;
};

// A line of mountinfo: id, parent, device, root, mount point, options, optional fields, "-", type, source, options.
std::vector<cgroup_mount> mounts(const std::string& root) {
  std::vector<cgroup_mount> all;
  std::ifstream in(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string field, type, source, options;
    cgroup_mount m;
    fields >> field >> field >> field >> m.group >> m.where;
    while (fields >> field && field != "-") continue;
    if (!(fields >> type >> source >> options)) continue;
    m.v2 = type == "cgroup2";
    if (m.v2 || (type == "cgroup" && lists(options, "cpu"))) all.push_back(std::move(m));
  }
  return all;
}

// A line of cgroup: number, controllers, path. That of v2 has the number 0 and no controllers.
std::string group_of_process(const std::string& root, bool v2) {
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (v2 ? line.compare(0, first, "0") == 0 && controllers.empty() : lists(controllers, "cpu"))
      return line.substr(second + 1);
  }
  return {};
}

/// The path of `group` below `top`, without a slash at its end; empty if it is not below it, or not to be seen.
std::string below(const std::string& group, const std::string& top) {
  std::string_view path = group;
  if (top != "/") {
    if (path.substr(0, top.size()) != top) return {};
    path.remove_prefix(top.size());
    if (!path.empty() && path.front() != '/') return {};
  }
  if (path.substr(0, 1) != "/" || path.find("/..") != path.npos) return {};  // outside the process's cgroup namespace
  while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  return std::string(path);
}

std::optional<double> quota_of(const std::string& folder, bool v2) {
  std::string quota;  // v2 says "max" if there is none, v1 -1
  double period = 0;
  if (v2) {
    std::ifstream(folder + "/cpu.max") >> quota >> period;
  } else {
    std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  }
  double time = 0;
  std::istringstream(quota) >> time;
  if (time <= 0 || period <= 0) return std::nullopt;
  return time / period;
}

}  // namespace

std::optional<double> cpu_quota(const std::string& root) {
  std::optional<double> least;
  for (const cgroup_mount& m : mounts(root)) {
    std::string path = below(group_of_process(root, m.v2), m.group);
    for (;;) {
      const std::optional<double> here = quota_of(std::string(root).append(m.where).append(path), m.v2);
      if (here && (!least || *here < *least)) least = here;
      if (path.empty()) break;
      path.resize(path.rfind('/'));
    }
  }
  return least;
}

unsigned usable_cpus() {
  const unsigned n = std::max(1U, by_affinity());
  const std::optional<double> quota = cpu_quota();
  if (!quota || *quota >= n) return n;
  return std::max(1U, static_cast<unsigned>(std::ceil(*quota)));
}

}  // namespace coir::detail
