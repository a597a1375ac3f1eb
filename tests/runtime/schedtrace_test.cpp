// COIR_DEBUG=schedtrace: a line every so often, while fibers run and while all is idle, and none without it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <coir_test.hpp>

namespace {

using namespace std::chrono_literals;

class Schedtrace : public coir_test::with_processors {
 protected:
  ~Schedtrace() override { ::unsetenv("COIR_DEBUG"); }

  /// What a runtime writes to stderr while f runs.
  template <class F>
  std::vector<std::string> lines(F&& f) {
    testing::internal::CaptureStderr();
    {
      coir::runtime rt{opts()};
      f(rt);
    }
    std::istringstream text(testing::internal::GetCapturedStderr());
    std::vector<std::string> result;
    for (std::string line; std::getline(text, line);) result.push_back(line);
    return result;
  }
};

// The last queue lengths are one a processor.
TEST_P(Schedtrace, LinesCome) {
  ASSERT_EQ(::setenv("COIR_DEBUG", "schedtrace=5", 1), 0);
  const std::vector<std::string> got = lines([](coir::runtime& rt) { rt.run([] { coir::sleep_for(60ms); }); });
  ASSERT_GE(got.size(), 2U);
  unsigned long last = 0;
  for (const std::string& line : got) {
    unsigned long n[10] = {};
    int end = 0;
    ASSERT_EQ(std::sscanf(line.c_str(),
                          "coir: %lums: processors=%lu idle=%lu threads=%lu asleep=%lu searching=%lu lost=%lu "
                          "retaken=+%lu fibers=%lu injected=%lu spilled=%*u timers=%*u queues=%n",
                          &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6], &n[7], &n[8], &n[9], &end),
              10)
        << line;
    ASSERT_GT(end, 0) << line;
    EXPECT_GE(n[0], last + 5) << line;
    last = n[0];
    EXPECT_EQ(n[1], GetParam());
    const std::string queues = line.substr(static_cast<std::size_t>(end));
    ASSERT_GE(queues.size(), 3U) << line;
    EXPECT_TRUE(queues.front() == '[' && queues.back() == ']') << line;
    EXPECT_EQ(queues.find_first_not_of("0123456789 []"), std::string::npos) << line;
    EXPECT_EQ(std::count(queues.begin(), queues.end(), ' ') + 1, static_cast<long>(GetParam()));
  }
}

// The monitor sleeps while nothing runs; not beyond the next line.
TEST_P(Schedtrace, LinesComeWhileAllIsIdle) {
  ASSERT_EQ(::setenv("COIR_DEBUG", "schedtrace=5", 1), 0);
  const std::vector<std::string> got = lines([](coir::runtime&) { std::this_thread::sleep_for(100ms); });
  EXPECT_GE(got.size(), 3U);
}

TEST_P(Schedtrace, NoneWithoutIt) {
  ::unsetenv("COIR_DEBUG");
  EXPECT_TRUE(lines([](coir::runtime& rt) { rt.run([] { coir::sleep_for(20ms); }); }).empty());
}

INSTANTIATE_TEST_SUITE_P(Processors, Schedtrace, coir_test::processors, coir_test::processors_name);

}  // namespace
