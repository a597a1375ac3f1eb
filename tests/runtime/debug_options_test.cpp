// COIR_DEBUG: what it may say, and that a runtime does not start with what it does not understand.
#include <cstdlib>
#include <stdexcept>
#include <string>

#include <coir_test.hpp>

#include "base/debug_options.hpp"

namespace {

using coir::detail::debug_options;
using coir_test::expect_throw_message;

void expect_rejected(const std::string& text, const std::string& part) {
  expect_throw_message<std::invalid_argument>([&] { debug_options::parse(text); }, part);
}

TEST(DebugOptions, AllIsOffByDefault) { EXPECT_EQ(debug_options::parse("").schedtrace, 0); }

TEST(DebugOptions, ANumberIsInItsUnit) {
  EXPECT_EQ(debug_options::parse("schedtrace=1000").schedtrace, 1'000'000'000);
  EXPECT_EQ(debug_options::parse("schedtrace=0").schedtrace, 0);
  EXPECT_EQ(debug_options::parse("blocked=250").blocked, 250'000'000);
  EXPECT_EQ(debug_options::parse("heldlock=1").heldlock, 1);
}

TEST(DebugOptions, TheLastOfTwoCounts) {
  EXPECT_EQ(debug_options::parse("schedtrace=7,schedtrace=2").schedtrace, 2'000'000);
}

TEST(DebugOptions, AnUnknownNameIsNamed) {
  expect_rejected("shedtrace=1000", R"(COIR_DEBUG: no option is called "shedtrace")");
  expect_rejected("schedtrace=1,verbose=1", R"("verbose")");
  expect_rejected("=1", R"(no option is called "")");
}

TEST(DebugOptions, ABadValueIsNamed) {
  for (const char* value : {"", "x", "10x", "-1", "1.5", " 1", "86400001", "99999999999999999999"})
    expect_rejected("schedtrace=" + std::string(value), "schedtrace is \"" + std::string(value) + '"');
}

TEST(DebugOptions, WhatIsNoPairIsNamed) {
  expect_rejected("schedtrace", R"("schedtrace" is not name=value)");
  expect_rejected("schedtrace=1,,schedtrace=2", R"("" is not name=value)");
  expect_rejected(",", R"("" is not name=value)");
  expect_rejected("schedtrace=1,", "ends in a comma");
}

TEST(DebugOptions, ARuntimeReadsThemWhenItIsConstructed) {
  ASSERT_EQ(::setenv("COIR_DEBUG", "nonsense=1", 1), 0);
  expect_throw_message<std::invalid_argument>([] { coir::runtime rt; }, "nonsense");
  expect_throw_message<std::invalid_argument>([] { coir::run([] {}); }, "nonsense");
  ASSERT_EQ(::unsetenv("COIR_DEBUG"), 0);
  EXPECT_EQ(coir::run([] { return 7; }), 7);
}

}  // namespace
