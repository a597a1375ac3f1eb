// How many CPUs the process may use, by cgroup quotas: the least of its own group's and of those above it counts. The
// file systems are imitations in a temporary folder.
#include "base/cpu_count.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <coir_test.hpp>

namespace {

using coir::detail::cpu_quota;

/// What /proc and /sys/fs/cgroup say on an imagined machine.
class machine {
 public:
  machine() {
    char name[] = "coir_cgroup_XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    root_ = std::filesystem::absolute(name);
  }
  ~machine() { std::filesystem::remove_all(root_); }
  machine(const machine&) = delete;
  machine& operator=(const machine&) = delete;

  machine& with(const std::string& file, const std::string& text) {
    const std::filesystem::path path = root_ / file.substr(1);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::app) << text << '\n';
    return *this;
  }
  machine& with_v2(const std::string& group = "/") {
    return with("/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw")
        .with("/proc/self/mountinfo", "30 22 0:26 " + group + " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 none rw");
  }
  machine& with_v1(const std::string& group = "/") {
    return with("/proc/self/mountinfo", "31 22 0:27 /a /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory")
        .with("/proc/self/mountinfo",
              "32 22 0:28 " + group + " /sys/fs/cgroup/cpu,cpuacct rw shared:5 - cgroup cgroup rw,cpu,cpuacct");
  }
  machine& in_group(const std::string& line) { return with("/proc/self/cgroup", line); }

  std::optional<double> quota() const { return cpu_quota(root_); }

 private:
  std::filesystem::path root_;
};

TEST(CpuCount, WithoutAQuotaEveryCpuCounts) {
  EXPECT_EQ(machine().quota(), std::nullopt);
  EXPECT_EQ(machine().with_v2().in_group("0::/a/b").with("/sys/fs/cgroup/a/b/cpu.max", "max 100000").quota(),
            std::nullopt);
  machine v1;
  v1.with_v1().in_group("4:cpu,cpuacct:/a");
  v1.with("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1");
  v1.with("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000");
  EXPECT_EQ(v1.quota(), std::nullopt);
}

TEST(CpuCount, TheQuotaOfItsOwnGroupCounts) {
  machine m;
  m.with_v2().in_group("0::/a/b").with("/sys/fs/cgroup/a/b/cpu.max", "150000 100000");
  EXPECT_EQ(m.quota(), 1.5);
}

TEST(CpuCount, TheLeastQuotaOfAllGroupsAboveCounts) {
  machine m;
  m.with_v2().in_group("0::/a/b/c");
  m.with("/sys/fs/cgroup/cpu.max", "6400000 100000");
  m.with("/sys/fs/cgroup/a/cpu.max", "200000 100000");
  m.with("/sys/fs/cgroup/a/b/cpu.max", "max 100000");
  m.with("/sys/fs/cgroup/a/b/c/cpu.max", "400000 100000");
  EXPECT_EQ(m.quota(), 2.0);
}

TEST(CpuCount, TheLeastQuotaOfAllGroupsAboveCountsInVersion1) {
  machine m;
  m.with_v1().in_group("9:memory:/x").in_group("4:cpu,cpuacct:/a/b").in_group("0::/elsewhere");
  m.with("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "300000");
  m.with("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000");
  m.with("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "250000");
  m.with("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "50000");
  EXPECT_EQ(m.quota(), 3.0);
}

// Both are mounted, and each has a say.
TEST(CpuCount, TheLeastOfBothVersionsCounts) {
  machine m;
  m.with_v2().with_v1().in_group("4:cpu,cpuacct:/a").in_group("0::/b");
  m.with("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "300000");
  m.with("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000");
  m.with("/sys/fs/cgroup/b/cpu.max", "700000 100000");
  EXPECT_EQ(m.quota(), 3.0);
}

// Without a cgroup namespace the path is the host's, and the mount shows a part of it.
TEST(CpuCount, OfAContainerItsMountShowsThePart) {
  machine m;
  m.with_v2("/docker/abc").in_group("0::/docker/abc/inner");
  m.with("/sys/fs/cgroup/cpu.max", "500000 100000");
  m.with("/sys/fs/cgroup/inner/cpu.max", "100000 100000");
  EXPECT_EQ(m.quota(), 1.0);
  machine other;  // a neighbour's name that begins likewise
  other.with_v2("/docker/abc").in_group("0::/docker/abcd");
  other.with("/sys/fs/cgroup/cpu.max", "500000 100000").with("/sys/fs/cgroup/d/cpu.max", "100000 100000");
  EXPECT_EQ(other.quota(), 5.0);
}

// A process that was moved out of its namespace's root sees "/../x": that is no folder of this mount.
TEST(CpuCount, AGroupOutsideTheNamespaceIsNotLookedFor) {
  machine m;
  m.with_v2().in_group("0::/../other").with("/sys/fs/cgroup/cpu.max", "200000 100000");
  m.with("/sys/fs/other/cpu.max", "100000 100000");
  EXPECT_EQ(m.quota(), 2.0);
}

TEST(CpuCount, IsAtLeastOne) { EXPECT_GE(coir::detail::usable_cpus(), 1U); }

}  // namespace
