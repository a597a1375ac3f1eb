// Generators and coroutines in fibers and threads: a body blocks as its consumer may, migrates with it, and is a part
// of whichever fiber or thread resumes it: cancellation, exceptions and happens-before are those of one thread of
// execution.
#include <coir/coroutine.hpp>
#include <coir/generator.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <coir/sleep.hpp>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using coir::coroutine;
using coir::generator;
using runtime_test::counted;
using runtime_test::gate;

class GeneratorInFibers : public runtime_test::leak_checked {};

/// Blocks in all ways that this layer has.
void block_a_little(int i) {
  switch (i % 4) {
    case 0:
      coir::yield();
      break;
    case 1:
      coir::sleep_for(std::chrono::microseconds(i % 7));
      break;
    case 2:
      coir::spawn([] { coir::yield(); }).get();
      break;
    default:
      break;
  }
}

void blocking_numbers(int n, generator<int>::yielder& yield) {
  const counted c(n);
  for (int i = 0; i < n; ++i) {
    block_a_little(i);
    yield(i);
    block_a_little(i + 1);
  }
}

TEST_P(GeneratorInFibers, BodiesBlockAndMigrate) {
  run([] {
    std::vector<coir::task<void>> tasks;
    for (int k = 0; k < 20; ++k)
      tasks.push_back(coir::spawn([] {
        const coir::fiber_id self = coir::this_fiber::get_id();
        generator<int> g([&](auto& yield) {
          EXPECT_EQ(coir::this_fiber::get_id(), self) << "a body is a part of the fiber that resumes it";
          blocking_numbers(coir_test::scaled(400), yield);
        });
        int expected = 0;
        for (int v : g) {
          ASSERT_EQ(v, expected++);
          block_a_little(v + 2);
        }
        EXPECT_EQ(expected, coir_test::scaled(400));
        EXPECT_EQ(coir::this_fiber::get_id(), self);
      }));
    for (coir::task<void>& t : tasks) t.get();
  });
}

TEST_P(GeneratorInFibers, AParkedBodyIsWokenByAnotherFiber) {
  run([] {
    gate door;
    coir::task<int> reader = coir::spawn([&] {
      generator<int> g([&](auto& yield) {
        yield(1);
        door.pass();
        yield(2);
      });
      int sum = 0;
      for (int v : g) sum += v;
      return sum;
    });
    coir_test::until_blocked(reader);
    door.open();
    EXPECT_EQ(reader.get(), 3);
  });
}

TEST_P(GeneratorInFibers, ResumingABodyThatIsParkedIsALogicError) {
  run([] {
    gate door;
    generator<int> g([&](auto& yield) {
      door.pass();
      yield(1);
    });
    coir::task<std::optional<int>> reader = coir::spawn([&] { return g.next(); });
    coir_test::until([&] { return door.awaited(); });
    coir_test::expect_throw_message<std::logic_error>([&] { g.next(); }, "resumed while its body runs");
    door.open();
    EXPECT_EQ(reader.get(), 1);
  });
}

TEST_P(GeneratorInFibers, OneGeneratorIsPassedFromFiberToFiber) {
  run([] {
    generator<int> g([](auto& yield) { blocking_numbers(coir_test::scaled(500), yield); });
    for (int i = 0; i < coir_test::scaled(500); ++i) {
      const std::optional<int> v = coir::spawn([&] {
                                     block_a_little(i);
                                     return g.next();
                                   }).get();
      ASSERT_EQ(v, i);
    }
    // Destroyed, suspended, by yet another.
    coir::spawn([last = std::move(g)] {}).get();
  });
}

TEST_P(GeneratorInFibers, OneGeneratorIsPassedBetweenAThreadAndFibers) {
  coir::runtime rt(opts());
  generator<int> g([](auto& yield) {
    for (int i = 0;; ++i) {
      if (coir::this_fiber::is_fiber()) block_a_little(i);
      yield(i);
    }
  });
  for (int i = 0; i < coir_test::scaled(300); i += 3) {
    ASSERT_EQ(g.next(), i);
    ASSERT_EQ(rt.run([&] { return g.next(); }), i + 1);
    std::optional<int> v;
    std::thread([&] { v = g.next(); }).join();
    ASSERT_EQ(v, i + 2);
  }
  rt.wait();
}

TEST_P(GeneratorInFibers, AThreadsBodyBlocksAsAThread) {
  gate door;
  coir::runtime rt(opts());
  generator<int> g([&](auto& yield) {
    yield(1);
    door.pass();
    yield(2);
  });
  EXPECT_EQ(g.next(), 1);
  rt.go([&] {
    coir_test::until([&] { return door.awaited(); });
    door.open();
  });
  EXPECT_EQ(g.next(), 2);
  rt.wait();
}

TEST_P(GeneratorInFibers, NestedBodiesParkAsOne) {
  run([] {
    std::vector<coir::task<int>> tasks;
    for (int k = 0; k < 10; ++k)
      tasks.push_back(coir::spawn([] {
        struct level {
          static generator<int> of(int depth) {
            return generator<int>([depth](auto& yield) {
              const counted c(depth);
              if (depth > 0)
                for (int v : of(depth - 1)) {
                  block_a_little(v + depth);
                  yield(v);
                }
              coir::yield();
              yield(depth);
            });
          }
        };
        int sum = 0;
        for (int v : level::of(20)) sum += v;
        return sum;
      }));
    for (coir::task<int>& t : tasks) EXPECT_EQ(t.get(), 210);
  });
}

TEST_P(GeneratorInFibers, YieldingFromInsideAnotherBodyMigratesToo) {
  run([] {
    std::vector<coir::task<void>> tasks;
    for (int k = 0; k < 8; ++k)
      tasks.push_back(coir::spawn([] {
        generator<int> outer([](auto& yield) {
          generator<int> inner([&](auto& inner_yield) {
            for (int i = 0; i < coir_test::scaled(100); ++i) {
              block_a_little(i);
              yield(2 * i);
              block_a_little(i + 1);
              inner_yield(2 * i + 1);
            }
          });
          for (int v : inner) {
            block_a_little(v);
            yield(v);
          }
        });
        int expected = 0;
        for (int v : outer) {
          ASSERT_EQ(v, expected++);
          block_a_little(v + 3);
        }
        EXPECT_EQ(expected, 2 * coir_test::scaled(100));
      }));
    for (coir::task<void>& t : tasks) t.get();
  });
}

TEST_P(GeneratorInFibers, CoroutinesTalkAcrossBlocking) {
  run([] {
    std::vector<coir::task<int>> tasks;
    for (int k = 0; k < 10; ++k)
      tasks.push_back(coir::spawn([] {
        coroutine<int, int, int> doubles([](auto& self) {
          int rounds = 0;
          for (int in = self.yield(0); in >= 0; in = self.yield(2 * in), ++rounds) block_a_little(in);
          return rounds;
        });
        doubles.next();
        for (int i = 0; i < coir_test::scaled(200); ++i) {
          EXPECT_EQ(doubles.send(i), 2 * i);
          block_a_little(i + 1);
        }
        doubles.send(-1);
        return doubles.result();
      }));
    for (coir::task<int>& t : tasks) EXPECT_EQ(t.get(), coir_test::scaled(200));
  });
}

// ---- cancellation --------------------------------------------------------------------------------------------------

TEST_P(GeneratorInFibers, ACancelledFiberIsUnwoundThroughItsBody) {
  run([] {
    gate never;
    std::atomic<int> unwound{0};
    coir::task<void> t = coir::spawn([&] {
      generator<int> g([&](auto& yield) {
        const counted in_body(1);
        yield(1);
        try {
          never.pass();
        } catch (const coir::cancelled&) {
          unwound.fetch_add(1);
          throw;
        }
      });
      const counted in_fiber(2);
      try {
        for (int v : g) EXPECT_EQ(v, 1);
      } catch (const coir::cancelled&) {
        unwound.fetch_add(1);
        EXPECT_TRUE(g.done());
        throw;
      }
    });
    coir_test::until_blocked(t);
    t.request_stop();
    EXPECT_THROW(t.get(), coir::task_cancelled);
    EXPECT_EQ(unwound.load(), 2);
  });
}

TEST_P(GeneratorInFibers, ACancelledFiberUnwindsTheBodiesThatItHoldsSuspended) {
  run([] {
    gate never;
    coir::task<void> t = coir::spawn([&] {
      generator<int> g([](auto& yield) {
        struct blocks {
          counted c;
          ~blocks() {
            const coir::uncancellable guard;
            coir::yield();
            coir::sleep_for(std::chrono::microseconds(1));
          }
        };
        const blocks b;
        yield(1);
      });
      g.next();
      never.pass();
    });
    coir_test::until_blocked(t);
    t.request_stop();
    EXPECT_THROW(t.get(), coir::task_cancelled);
  });
}

// ---- exceptions ----------------------------------------------------------------------------------------------------

int current_number() {
  const std::exception_ptr e = std::current_exception();
  if (e == nullptr) return -1;
  try {
    std::rethrow_exception(e);
  } catch (int n) {
    return n;
  }
}

/// Yields inside a catch block, inside one that is nested in it, and inside a destructor during unwinding.
void yield_among_exceptions(int base, generator<int>::yielder& yield) {
  EXPECT_EQ(current_number(), -1);
  EXPECT_EQ(std::uncaught_exceptions(), 0);
  try {
    throw base;
  } catch (int) {
    EXPECT_EQ(current_number(), base);
    yield(current_number());
    EXPECT_EQ(current_number(), base);
    try {
      struct yields {
        generator<int>::yielder* yield;
        int number;
        ~yields() {
          EXPECT_EQ(std::uncaught_exceptions(), 1);
          (*yield)(number + 1);
          EXPECT_EQ(std::uncaught_exceptions(), 1);
        }
      };
      const yields y{&yield, base};  // NOLINT(clang-analyzer-deadcode.DeadStores): its destructor counts
      throw base + 2;
    } catch (int) {
      EXPECT_EQ(current_number(), base + 2);
      yield(current_number());
      EXPECT_EQ(current_number(), base + 2);
    }
    EXPECT_EQ(current_number(), base);
  }
  EXPECT_EQ(current_number(), -1);
  yield(base + 3);
}

void consume_among_exceptions(int base, bool in_fiber) {
  generator<int> a([&](auto& yield) { yield_among_exceptions(base + 100, yield); });
  generator<int> b([&](auto& yield) { yield_among_exceptions(base + 200, yield); });
  try {
    throw base;
  } catch (int) {
    EXPECT_EQ(a.next(), base + 100);
    EXPECT_EQ(current_number(), base);
    try {
      throw base + 1;
    } catch (int) {
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(b.next(), base + 200 + i);
        EXPECT_EQ(current_number(), base + 1);
        EXPECT_EQ(a.next(), base + 101 + i);
        EXPECT_EQ(current_number(), base + 1);
        if (in_fiber) block_a_little(i);
      }
    }
    EXPECT_EQ(current_number(), base);
    EXPECT_EQ(b.next(), base + 203);
  }
  EXPECT_EQ(a.next(), std::nullopt);
  EXPECT_EQ(b.next(), std::nullopt);
  EXPECT_EQ(current_number(), -1);
}

TEST_P(GeneratorInFibers, TheExceptionsOfABodyAreItsOwn) {
  run([] {
    std::vector<coir::task<void>> tasks;
    for (int k = 0; k < 30; ++k)
      tasks.push_back(coir::spawn([k] {
        for (int i = 0; i < coir_test::scaled(50); ++i) consume_among_exceptions(1000 * k, true);
      }));
    for (coir::task<void>& t : tasks) t.get();
  });
}

TEST(GeneratorInThreads, TheExceptionsOfABodyAreItsOwn) {
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) threads.emplace_back([k] { consume_among_exceptions(1000 * k, false); });
  for (std::thread& t : threads) t.join();
}

TEST(GeneratorInThreads, ThreadsUseTheirOwnInParallel) {
  std::vector<std::thread> threads;
  std::atomic<long> total{0};
  for (int k = 0; k < 4; ++k)
    threads.emplace_back([&] {
      for (int round = 0; round < coir_test::scaled(2000); ++round) {
        generator<int> g([](auto& yield) {
          for (int i = 0; i < 10; ++i) yield(i);
        });
        for (int v : g) {
          total.fetch_add(v);
          if (v == 7 && round % 2 == 0) break;
        }
      }
    });
  for (std::thread& t : threads) t.join();
  const long rounds = coir_test::scaled(2000);
  EXPECT_EQ(total.load(), 4 * (rounds / 2 * 45 + (rounds - rounds / 2) * 28));
}

INSTANTIATE_TEST_SUITE_P(Processors, GeneratorInFibers, coir_test::processors, coir_test::processors_name);

// ---- what ThreadSanitizer is told ----------------------------------------------------------------------------------

class GeneratorTsanPairs : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    if (!coir_test::thread_sanitizer) GTEST_SKIP() << "only ThreadSanitizer can tell";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }

  template <class F>
  [[noreturn]] static void run_and_exit(F f) {
    coir::options o;
    o.processors = GetParam();
    coir::run(o, f);
    std::exit(0);
  }
};

int shared = 0;

void wait_for(const std::atomic<bool>& flag) {
  while (!flag.load(std::memory_order_relaxed)) coir::yield();
}

TEST_P(GeneratorTsanPairs, ABodyAndItsConsumerAreOneThreadOfExecution) {
  EXPECT_EXIT(run_and_exit([] {
                generator<int> g([](auto& yield) {
                  for (int i = 0; i < 10; ++i) {
                    ++shared;
                    yield(shared);
                    ++shared;
                    coir::yield();
                  }
                });
                for (int v : g) shared = v + 1;
                generator<int> passed([](auto& yield) {
                  for (;;) yield(++shared);
                });
                for (int i = 0; i < 10; ++i) coir::spawn([&] { shared = *passed.next() + 1; }).get();
                shared = 0;
              }),
              testing::ExitedWithCode(0), "");
}

TEST_P(GeneratorTsanPairs, TwoFibersThatRaceInTheirBodiesAreReported) {
  EXPECT_EXIT(run_and_exit([] {
                std::atomic<bool> second_lives{false}, written{false}, both{false};
                coir::task<void> a = coir::spawn([&] {
                  generator<int> g([&](auto& yield) {
                    wait_for(second_lives);
                    shared = 1;
                    written.store(true, std::memory_order_relaxed);
                    wait_for(both);
                    yield(1);
                  });
                  g.next();
                });
                coir::task<void> b = coir::spawn([&] {
                  generator<int> g([&](auto& yield) {
                    second_lives.store(true, std::memory_order_relaxed);
                    wait_for(written);
                    shared = 2;
                    both.store(true, std::memory_order_relaxed);
                    yield(1);
                  });
                  g.next();
                });
                a.get();
                b.get();
              }),
              testing::ExitedWithCode(66), "data race");
}

INSTANTIATE_TEST_SUITE_P(Processors, GeneratorTsanPairs, coir_test::processors, coir_test::processors_name);

}  // namespace
