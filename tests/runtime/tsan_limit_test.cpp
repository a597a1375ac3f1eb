// ThreadSanitizer's limit of threads, of which each stack is one: how many fibers that have ended do not count, and
// what a program that has too many is told.
#include <atomic>
#include <memory>
#include <vector>

#include <coir/chan.hpp>
#include <coir/wait_group.hpp>

#include "coir_test.hpp"

namespace {

class TsanLimit : public testing::Test {
 protected:
  void SetUp() override {
    if (!coir_test::thread_sanitizer) GTEST_SKIP() << "concerns ThreadSanitizer alone";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

/// So many fibers that are blocked at the same time.
void park(coir::runtime& rt, int count) {
  rt.run([count] {
    auto never = coir::make_chan<void>();
    coir::wait_group done;
    done.add(count);
    std::atomic<int> arrived{0};
    for (int i = 0; i < count; ++i) {
      coir::go([&] {
        ++arrived;
        never.recv();
        done.done();
      });
    }
    while (arrived < count) coir::yield();
    never.close();
    done.wait();
  });
}

// The stacks of each stay with its runtime.
TEST_F(TsanLimit, FibersThatHaveEndedDoNotCount) {
  coir::options o;
  o.processors = 2;
  std::vector<std::unique_ptr<coir::runtime>> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(std::make_unique<coir::runtime>(o));
    park(*all.back(), 2800);
  }
  park(*all.front(), 2800);
}

TEST_F(TsanLimit, TooManyAreToldSo) {
  EXPECT_DEATH(
      {
        coir::options o;
        o.processors = 1;
        coir::runtime rt{o};
        park(rt, 9000);
      },
      "coir: there are 8000 stacks of fibers.* To ThreadSanitizer each is a thread");
}

}  // namespace
