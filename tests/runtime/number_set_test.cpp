// A set of numbers against the one of the standard library.
#include <cstddef>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "base/number_set.hpp"

namespace {

using coir::detail::number_set;

TEST(NumberSet, GivesTheLeastAndTheGreatest) {
  number_set s;
  s.reserve(10'000);
  for (const std::size_t n : {9'999U, 63U, 64U, 0U, 4096U, 4095U}) s.insert(n);
  EXPECT_EQ(s.take_least(), 0U);
  EXPECT_EQ(s.take_greatest(), 9'999U);
  EXPECT_EQ(s.take_least(), 63U);
  EXPECT_EQ(s.take_greatest(), 4096U);
  s.insert(0);
  s.insert(9'998);
  EXPECT_EQ(s.take_greatest(), 9'998U);
  EXPECT_EQ(s.take_least(), 0U);
  EXPECT_EQ(s.take_least(), 64U);
  EXPECT_EQ(s.take_greatest(), 4095U);
}

TEST(NumberSet, KeepsWhatItHasWhenItGrows) {
  number_set s;
  s.reserve(1);
  s.insert(0);
  s.reserve(65);
  s.insert(64);
  s.reserve(1'000'000);
  s.insert(999'999);
  s.reserve(2);  // never less
  EXPECT_EQ(s.take_greatest(), 999'999U);
  EXPECT_EQ(s.take_greatest(), 64U);
  EXPECT_EQ(s.take_greatest(), 0U);
}

TEST(NumberSet, DoesWhatAStandardSetDoes) {
  std::mt19937 random(1);
  for (const std::size_t numbers : {10U, 64U, 1000U, 20'000U}) {
    number_set s;
    std::set<std::size_t> model;
    s.reserve(numbers);
    for (int i = 0; i < 20'000; ++i) {
      const std::size_t n = random() % numbers;
      switch (random() % 4) {
        case 0:
        case 1:
          if (model.insert(n).second) s.insert(n);
          break;
        case 2:
          if (model.empty()) break;
          ASSERT_EQ(s.take_least(), *model.begin());
          model.erase(model.begin());
          break;
        default:
          if (model.empty()) break;
          ASSERT_EQ(s.take_greatest(), *model.rbegin());
          model.erase(--model.end());
      }
    }
    while (!model.empty()) {
      ASSERT_EQ(s.take_least(), *model.begin());
      model.erase(model.begin());
    }
  }
}

}  // namespace
