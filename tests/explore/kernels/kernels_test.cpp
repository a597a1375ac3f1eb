// Every kernel's bug is found, in the way in which it shows, and found again by its schedule; its twin has none.
#include <coir/explore.hpp>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels.hpp"

using coir::failure_kind;

namespace kernels {

void PrintTo(const kernel& k, std::ostream* out) { *out << k.name; }

namespace {

class Kernels : public testing::TestWithParam<kernel> {};

constexpr std::uint64_t seeds[] = {1, 2, 3};
constexpr std::uint64_t of_a_twin = 100'000;
constexpr std::uint64_t enough = 1'000'000;  // for all schedules of dfs(2)
constexpr int replays = 1'000;

std::string named(const testing::TestParamInfo<kernel>& which) { return which.param.name; }

failure_kind expected(const kernel& k) {
  return k.shows == effect::deadlock ? failure_kind::deadlock : failure_kind::exception;
}

TEST_P(Kernels, TheBugIsFoundAndReplays) {
  const kernel k = GetParam();
  for (const std::uint64_t seed : seeds) {
    const coir::exploration e = coir::explore({.schedules = 10'000, .strategy = coir::pct(3), .seed = seed}, k.broken);
    ASSERT_EQ(e.kind(), expected(k)) << e;
    RecordProperty("schedules_" + std::to_string(seed), std::to_string(e.schedules()));
    for (int i = 0; i < (seed == 1 ? replays : 10); ++i) {
      const coir::exploration again = coir::replay(e.schedule(), k.broken);
      ASSERT_EQ(again.kind(), e.kind()) << again;
      ASSERT_EQ(again.what(), e.what());
      ASSERT_EQ(again.steps(), e.steps());
      ASSERT_EQ(again.schedule(), e.schedule());
    }
  }
}

TEST_P(Kernels, TheTwinIsClean) {
  const coir::exploration e = coir::explore({.schedules = of_a_twin, .strategy = coir::pct(3)}, GetParam().mended);
  EXPECT_TRUE(e) << e;
  EXPECT_GE(e.schedules(), of_a_twin);
}

TEST_P(Kernels, NeedsAnInterleaving) {
  // Not every schedule fails: one of the first hundred random ones passes.
  int passed = 0;
  for (std::uint64_t seed = 1; seed <= 100 && passed == 0; ++seed)
    if (coir::explore({.schedules = 1, .strategy = coir::random_walk(), .seed = seed, .shrink_budget = 0},
                      GetParam().broken))
      ++passed;
  EXPECT_GT(passed, 0);
}

TEST_P(Kernels, TwoPreemptionsFindTheBug) {
  const coir::exploration e = coir::explore({.schedules = enough, .strategy = coir::dfs(2)}, GetParam().broken);
  EXPECT_EQ(e.kind(), expected(GetParam())) << e;
}

TEST_P(Kernels, TwoPreemptionsLeaveTheTwinClean) {
  const coir::exploration e = coir::explore({.schedules = enough, .strategy = coir::dfs(2)}, GetParam().mended);
  EXPECT_TRUE(e) << e;
  EXPECT_TRUE(e.exhausted()) << e;
}

INSTANTIATE_TEST_SUITE_P(All, Kernels, testing::ValuesIn(table()), named);

}  // namespace

}  // namespace kernels
