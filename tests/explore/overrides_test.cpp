// What comes to an exploration from outside: the environment, a corpus of schedules; and the end of one that hangs.
#include <coir/explore.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include <unistd.h>

#include <gtest/gtest.h>

#include <coir/coir.hpp>
#include <coir/net.hpp>

#include "coir_test.hpp"

using namespace std::chrono_literals;
using coir::failure_kind;

namespace {

/// An environment variable, for as long as this lives.
class variable {
 public:
  variable(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  variable(const variable&) = delete;
  variable& operator=(const variable&) = delete;
  ~variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

/// A file that is removed at the end.
class file {
 public:
  explicit file(const std::string& text) : path_(testing::TempDir() + "coir_corpus_" + std::to_string(::getpid())) {
    std::ofstream(path_) << text;
  }
  file(const file&) = delete;
  file& operator=(const file&) = delete;
  ~file() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Fails if the fiber that was spawned last runs first.
void last_goes_first() {
  coir::mutex lock;
  int first = 0;
  const auto come = [&](int who) {
    const std::scoped_lock held(lock);
    if (first == 0) first = who;
  };
  coir::wait_group all;
  for (int i = 1; i <= 3; ++i) all.go([&, i] { come(i); });
  all.wait();
  if (first == 3) throw std::runtime_error("the last went first");
}

void nothing_fails() {
  coir::wait_group all;
  all.go([] { coir::yield(); });
  all.wait();
}

TEST(ExploreEnvironment, SchedulesGoBeforeTheOptions) {
  const variable schedules("COIR_SCHEDULES", "7");
  EXPECT_EQ(coir::explore({.schedules = 100}, nothing_fails).schedules(), 7U);
}

TEST(ExploreEnvironment, TheSeedGoesBeforeTheOptions) {
  const std::string other = coir::explore({.schedules = 20, .seed = 5}, nothing_fails).schedule();
  EXPECT_NE(coir::explore({.schedules = 20, .seed = 6}, nothing_fails).schedule(), other);
  const variable seed("COIR_SEED", "5");
  EXPECT_EQ(coir::explore({.schedules = 20, .seed = 6}, nothing_fails).schedule(), other);
}

TEST(ExploreEnvironment, AScheduleIsReplayedInPlaceOfAnExploration) {
  const coir::exploration found = coir::explore({.schedules = 10'000}, last_goes_first);
  ASSERT_EQ(found.kind(), failure_kind::exception) << found;
  const variable schedule("COIR_SCHEDULE", found.schedule());
  const coir::exploration again = coir::explore({.schedules = 10'000, .seed = 77}, last_goes_first);
  EXPECT_EQ(again.kind(), failure_kind::exception) << again;
  EXPECT_EQ(again.schedules(), 1U);
  EXPECT_EQ(again.what(), found.what());
}

TEST(ExploreEnvironment, WhatIsMalformedIsRefused) {
  for (const char* name : {"COIR_SCHEDULES", "COIR_SEED", "COIR_SCHEDULE"}) {
    for (const char* text : {"many", "-3", "1 2"}) {
      const variable malformed(name, text);
      EXPECT_THROW(coir::explore({.schedules = 3}, nothing_fails), std::invalid_argument) << name << "=" << text;
    }
  }
}

TEST(ExploreCorpus, ItsSchedulesAreTriedFirst) {
  const coir::exploration found = coir::explore({.schedules = 10'000}, last_goes_first);
  ASSERT_TRUE(found.failed());
  const file corpus("# the last went first, once\n\n" + found.schedule() + "  # as it was found\n");
  const coir::exploration again = coir::explore({.schedules = 10'000, .corpus = corpus.path()}, last_goes_first);
  EXPECT_EQ(again.kind(), failure_kind::exception) << again;
  EXPECT_EQ(again.schedules(), 1U);
}

// The program has changed since: that is no failure.
TEST(ExploreCorpus, AScheduleThatTheProgramHasOutgrownIsFollowedAsFarAsItGoes) {
  const coir::exploration found = coir::explore({.schedules = 10'000}, last_goes_first);
  ASSERT_TRUE(found.failed());
  const file corpus(found.schedule() + "\n");
  const coir::exploration other = coir::explore({.schedules = 50, .corpus = corpus.path()}, nothing_fails);
  EXPECT_TRUE(other) << other;
}

TEST(ExploreCorpus, OneThatIsNotThereOrMalformedIsRefused) {
  EXPECT_THROW(coir::explore({.schedules = 3, .corpus = "/nowhere/corpus"}, nothing_fails), std::invalid_argument);
  const file corpus("no schedule at all\n");
  EXPECT_THROW(coir::explore({.schedules = 3, .corpus = corpus.path()}, nothing_fails), std::invalid_argument);
}

TEST(ExploreWatchdogDeathTest, AScheduleThatHangsEndsTheProcessWithAReport) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(coir::explore({.schedules = 1, .max_seconds = 0.2}, [] { std::this_thread::sleep_for(1min); }),
               "fatal: a schedule of the exploration at .*overrides_test.cpp:[0-9]+ has taken more than 0.2 seconds");
}

/// Kilobytes that are resident now.
long resident() {
  long pages = 0;
  long skipped = 0;
  std::ifstream("/proc/self/statm") >> skipped >> pages;
  return pages * (::sysconf(_SC_PAGESIZE) / 1024);
}

/// Explores it twice, the second time for longer.
void expect_flat_memory(void (*program)(), std::uint64_t schedules) {
  if (coir_test::thread_sanitizer || coir_test::address_sanitizer) GTEST_SKIP() << "the sanitizer's own memory grows";
  coir::explore({.schedules = 2'000}, program);
  const long before = resident();
  const coir::exploration e = coir::explore({.schedules = schedules}, program);
  EXPECT_EQ(e.schedules(), schedules) << e;
  EXPECT_LT(resident() - before, 1'000) << "KiB more";
}

TEST(ExploreMemory, StaysWhatItIsHoweverManySchedules) { expect_flat_memory(nothing_fails, 1'000'000); }

TEST(ExploreMemory, StaysWhatItIsWithANetwork) {
  expect_flat_memory(
      [] {
        coir::net::tcp_listener listener(coir::net::endpoint("127.0.0.1:0"));
        coir::net::tcp_stream client = coir::net::tcp_stream::connect(listener.local_endpoint());
        coir::net::tcp_stream server = listener.accept();
        std::array<std::byte, 1'000> bytes{};
        client.write(bytes);
        server.read(bytes);
      },
      20'000);
}

}  // namespace
