#include "cpu_count.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

#include <sched.h>

namespace coir::detail {

namespace {

unsigned by_affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) return static_cast<unsigned>(CPU_COUNT(&set));
  return std::thread::hardware_concurrency();  // more CPUs than a cpu_set_t holds
}

// The cgroup's path below the controller's mount; the last one wins (cgroup v2's line starts with "0::").
std::string group_path(const std::string& controller) {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controllers == controller ||
        (!controller.empty() && ("," + controllers + ",").find("," + controller + ",") != std::string::npos))
      return line.substr(second + 1);
  }
  return "/";
}

// In a container the group's own folder is usually mounted at the root.
double by_quota() {
  for (const std::string& path : {group_path(""), std::string()}) {
    std::ifstream v2("/sys/fs/cgroup" + path + "/cpu.max");
    std::string quota;
    double period = 0;
    if (v2 >> quota >> period && quota != "max" && period > 0) return std::stod(quota) / period;
  }
  for (const std::string& path : {group_path("cpu"), std::string()}) {
    std::ifstream quota_file("/sys/fs/cgroup/cpu" + path + "/cpu.cfs_quota_us");
    std::ifstream period_file("/sys/fs/cgroup/cpu" + path + "/cpu.cfs_period_us");
    double quota = 0;
    double period = 0;
    if (quota_file >> quota && period_file >> period && quota > 0 && period > 0) return quota / period;
  }
  return 0;
}

}  // namespace

unsigned usable_cpus() {
  unsigned n = std::max(1U, by_affinity());
  if (const double quota = by_quota(); quota > 0)
    n = std::min(n, std::max(1U, static_cast<unsigned>(std::ceil(quota))));
  return n;
}

}  // namespace coir::detail
