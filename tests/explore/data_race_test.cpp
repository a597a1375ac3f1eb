// Under ThreadSanitizer an exploration finds a data race that most schedules hide.
#include <cstdlib>
#include <iostream>

#include <gtest/gtest.h>

#include <coir/explore.hpp>
#include <coir/mutex.hpp>
#include <coir/runtime.hpp>

namespace {

// The reader forgets the lock; it is ordered behind the writer if it takes the other lock after it.
[[maybe_unused]] void publish_without_a_lock() {
  coir::mutex before;
  int published = 0;
  coir::task<void> writer = coir::spawn([&] {
    published = 1;
    before.lock();
    before.unlock();
  });
  before.lock();
  before.unlock();
  const int seen = published;
  writer.get();
  if (seen > 1) std::cerr << seen;
}

TEST(ExploreRaces, ThreadSanitizerSeesThoseOfEverySchedule) {
#if !defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "not built with ThreadSanitizer";
#else
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const coir::exploration e = coir::explore({.schedules = 100}, publish_without_a_lock);
        std::exit(e ? 0 : 1);  // ThreadSanitizer makes another of the 0
      },
      testing::ExitedWithCode(66), "WARNING: ThreadSanitizer: data race(.|\n)*data_race_test.cpp");
#endif
}

// What its bookkeeping does on behalf of all fibers is no race, and hides none.
TEST(ExploreRaces, AProgramWithoutARaceHasNone) {
  const coir::exploration e = coir::explore({.schedules = 1'000}, [] {
    coir::mutex lock;
    int value = 0;
    const auto add = [&] {
      lock.lock();
      ++value;
      lock.unlock();
    };
    coir::task<void> other = coir::spawn(add);
    add();
    other.get();
    if (value != 2) std::abort();
  });
  EXPECT_TRUE(e) << e;
}

}  // namespace
