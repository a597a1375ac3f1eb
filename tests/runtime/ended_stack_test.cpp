// AddressSanitizer and the stacks of those that have ended: who still uses a variable there is reported. Each program
// that is to be reported runs in a process of its own.
#include <chrono>
#include <cstdlib>

#include <coir/generator.hpp>

#include "coir_test.hpp"

namespace {

class EndedStack : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    if (!coir_test::address_sanitizer) GTEST_SKIP() << "only AddressSanitizer can tell";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }

  template <class F>
  static void run(F f) {
    coir::options o;
    o.processors = GetParam();
    coir::run(o, f);
  }

  /// Reads for some seconds: a task has a result a moment before its fiber has left its stack.
  [[noreturn]] static void keep_reading(const volatile int* p) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < end) {
      static_cast<void>(*p);
      coir::yield();
    }
    std::exit(0);
  }
};

/// So that no compiler sees what is returned.
template <class T>
[[gnu::noinline]] T* escape(T* p) {
  asm volatile("" : "+r"(p));
  return p;
}

#define EXPECT_REPORTED(statement) EXPECT_DEATH(statement, "AddressSanitizer: use-after-poison")

TEST_P(EndedStack, AVariableOfAFiberIsReported) {
  EXPECT_REPORTED(run([] {
    keep_reading(coir::spawn([] {
                   int mine = 1;
                   return escape(&mine);
                 }).get());
  }));
}

// As run() waits for all fibers, those that it has left behind outlive what its function has captured for them.
TEST_P(EndedStack, AVariableOfMainIsReported) {
  EXPECT_REPORTED(run([] {
    int mine = 1;
    coir::go([p = escape(&mine)] { keep_reading(p); });
  }));
}

TEST_P(EndedStack, AVariableOfAGeneratorIsReported) {
  EXPECT_REPORTED(run([] {
    int* theirs = nullptr;
    {
      coir::generator<int*> g([](auto& yield) {
        int mine = 1;
        yield(escape(&mine));
      });
      for (int* p : g) theirs = p;
    }
    keep_reading(theirs);
  }));
}

TEST_P(EndedStack, AVariableOfWhoIsParkedIsNot) {
  run([] {
    for (int i = 0; i < 100; ++i) {  // on stacks that others have left
      int mine = 0;
      coir::task<void> writes = coir::spawn([p = escape(&mine)] { *p = 1; });
      writes.get();
      EXPECT_EQ(mine, 1);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, EndedStack, coir_test::processors, coir_test::processors_name);

}  // namespace
