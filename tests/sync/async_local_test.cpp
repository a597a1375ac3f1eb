// A coroutine's fiber_locals are its own, whatever carries it.
#include <coir/async.hpp>
#include <coir/chan.hpp>
#include <coir/fiber_local.hpp>

#include <atomic>

#include "coir_test.hpp"

namespace {

using coir::async;
using coir_test::until_blocked;

class AsyncLocal : public coir_test::with_processors {};

struct counted {
  counted() { ++alive; }
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;
  ~counted() { --alive; }
  int value = 0;
  static inline std::atomic<int> alive{0};
};

TEST_P(AsyncLocal, StaysAcrossAwaitsAndEndsWithTheCoroutine) {
  run([] {
    coir::fiber_local<counted> local;
    const auto ch = coir::make_chan<int>();
    coir::task<void> t = coir::spawn([&, ch]() -> async<void> {
      local->value = 5;
      co_await ch.async_recv();
      EXPECT_EQ(local->value, 5);
      co_await ch.async_recv();
      EXPECT_EQ(local->value, 5);
    });
    for (int i = 0; i < 2; ++i) {
      until_blocked(t);
      coir::spawn([&] { EXPECT_EQ(local->value, 0); }).get();
      EXPECT_EQ(counted::alive, 1);
      ch.send(1);
    }
    t.get();
    EXPECT_EQ(counted::alive, 0);  // before the join returns
  });
  EXPECT_EQ(counted::alive, 0);
}

TEST_P(AsyncLocal, EndsWithACoroutineThatIsCancelled) {
  run([] {
    coir::fiber_local<counted> local;
    const auto ch = coir::make_chan<int>();
    coir::task<void> t = coir::spawn([&, ch]() -> async<void> {
      local->value = 5;
      co_await ch.async_recv();
    });
    until_blocked(t);
    t.request_stop();
    EXPECT_THROW(t.get(), coir::task_cancelled);
    EXPECT_EQ(counted::alive, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, AsyncLocal, coir_test::processors, coir_test::processors_name);

}  // namespace
