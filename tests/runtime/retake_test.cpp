// Nobody can hold a processor hostage: fibers that block their thread in the kernel, or compute on and on, keep nobody
// else from running, at one processor too; afterwards they go on correctly, whatever they do next.
#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <semaphore>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <coir/metrics.hpp>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using coir_test::scaled;
using coir_test::until_blocked;
using runtime_test::gate;
using namespace std::chrono_literals;

class Retake : public runtime_test::leak_checked {};

/// Blocks the calling fiber's thread until another fiber has run, which it has only after the processor was retaken
/// (or, with several, what waits behind it was stolen).
void block_the_thread() {
  std::binary_semaphore ran{0};
  coir::go([&ran] { ran.release(); });
  ran.acquire();
}

/// The same by computing.
void compute() {
  std::atomic<bool> ran{false};
  coir::go([&ran] { ran = true; });
  while (!ran) {
  }
}

/// Both ways to lose a processor, so that each test can take both.
constexpr std::array<void (*)(), 2> ways = {block_the_thread, compute};

class pipe_pair {
 public:
  pipe_pair() {
    if (::pipe(ends_) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  }
  ~pipe_pair() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  pipe_pair(const pipe_pair&) = delete;
  pipe_pair& operator=(const pipe_pair&) = delete;

  char read() const {
    char c = 0;
    EXPECT_EQ(::read(ends_[0], &c, 1), 1);
    return c;
  }
  void write(char c) const { EXPECT_EQ(::write(ends_[1], &c, 1), 1); }

 private:
  int ends_[2];
};

// ---- who waits behind it runs --------------------------------------------------------------------------------------

TEST_P(Retake, AFiberInABlockingReadKeepsNobodyFromRunning) {
  run([] {
    const pipe_pair pipe;
    coir::task<char> reader = coir::spawn([&] { return pipe.read(); });
    coir::task<void> writer = coir::spawn([&] { pipe.write('x'); });
    EXPECT_EQ(reader.get(), 'x');
    writer.get();
  });
}

TEST_P(Retake, MoreReadersThanProcessors) {
  run([] {
    const pipe_pair pipe;
    std::vector<coir::task<char>> readers;
    for (int i = 0; i < 20; ++i) readers.push_back(coir::spawn([&] { return pipe.read(); }));
    for (int i = 0; i < 20; ++i) coir::go([&] { pipe.write('x'); });
    for (coir::task<char>& t : readers) EXPECT_EQ(t.get(), 'x');
  });
}

TEST_P(Retake, NoFileDescriptorIsLeft) {
  run([] {
    const pipe_pair pipe;
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none{0, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    std::atomic<bool> reads{false};
    coir::task<void> writer = coir::spawn([&] {
      while (!reads) coir::yield();
      pipe.write('x');
    });
    coir::task<char> reader = coir::spawn([&] {
      reads = true;
      return pipe.read();
    });
    EXPECT_EQ(reader.get(), 'x');
    writer.get();
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  });
}

TEST_P(Retake, AFiberThatSleepsInTheOperatingSystem) {
  run([] {
    std::atomic<bool> ran{false};
    coir::task<void> other = coir::spawn([&] { ran = true; });
    while (!ran) ::usleep(500);
    other.get();
  });
}

TEST_P(Retake, AFiberThatWaitsForAMutexOfTheOperatingSystem) {
  run([] {
    std::mutex mutex;
    std::binary_semaphore locked{0};
    std::binary_semaphore unlock{0};
    std::thread holder([&] {
      const std::lock_guard hold(mutex);
      locked.release();
      unlock.acquire();
    });
    locked.acquire();
    coir::task<void> waiter = coir::spawn([&] { const std::lock_guard hold(mutex); });
    coir::task<void> liberator = coir::spawn([&] { unlock.release(); });
    waiter.get();
    liberator.get();
    holder.join();
  });
}

TEST_P(Retake, EndlessLoopsOnAllProcessors) {
  run([&] {
    std::atomic<bool> stop{false};
    std::vector<coir::task<void>> loops;
    for (unsigned i = 0; i < GetParam() + 2; ++i) {
      loops.push_back(coir::spawn([&] {
        while (!stop) {
        }
      }));
    }
    coir::task<void> timed = coir::spawn([&] {
      coir::sleep_for(1ms);
      stop = true;
    });
    timed.get();
    for (coir::task<void>& t : loops) t.get();
  });
}

TEST_P(Retake, ATimerBehindAComputingFiberFires) {
  run([] {
    std::atomic<bool> fired{false};
    coir::task<void> sleeper = coir::spawn([&] {
      coir::sleep_for(2ms);
      fired = true;
    });
    coir_test::until_blocked_or_ended(sleeper);
    while (!fired) {
    }
    sleeper.get();
  });
}

TEST_P(Retake, AnInjectedFiberBehindAComputingOneRuns) {
  coir::runtime rt{opts()};
  std::atomic<unsigned> spinning{0};
  std::atomic<bool> stop{false};
  for (unsigned i = 0; i < GetParam(); ++i) {
    rt.go([&] {
      ++spinning;
      while (!stop) {
      }
    });
  }
  while (spinning != GetParam()) std::this_thread::yield();
  rt.spawn([&] { stop = true; }).get();
  rt.wait();
}

// ---- and goes on correctly, on every path --------------------------------------------------------------------------

TEST_P(Retake, ThenItParks) {
  run([] {
    for (const auto lose : ways) {
      gate door;
      coir::task<void> lost = coir::spawn([&] {
        lose();
        door.pass();
      });
      until_blocked(lost);
      door.open();
      lost.get();
    }
  });
}

TEST_P(Retake, ThenItSleeps) {
  run([] {
    for (const auto lose : ways) {
      std::vector<coir::task<void>> all;
      for (int i = 0; i < 4; ++i) {
        all.push_back(coir::spawn([lose, i] {
          lose();
          const auto begin = std::chrono::steady_clock::now();
          coir::sleep_for(std::chrono::milliseconds(i));
          EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(i));
        }));
      }
      for (coir::task<void>& t : all) t.get();
    }
  });
}

TEST_P(Retake, ThenItYields) {
  run([] {
    for (const auto lose : ways) {
      lose();
      for (int i = 0; i < 100; ++i) coir::yield();
    }
  });
}

TEST_P(Retake, ThenItStartsFibersAndJoinsThem) {
  run([] {
    for (const auto lose : ways) {
      lose();
      std::vector<coir::task<int>> children;
      for (int i = 0; i < 300; ++i) children.push_back(coir::spawn([i] { return i; }));
      for (int i = 0; i < 300; ++i) EXPECT_EQ(children[static_cast<std::size_t>(i)].get(), i);
    }
  });
}

TEST_P(Retake, ThenItWakesOthers) {
  run([] {
    for (const auto lose : ways) {
      gate door;
      std::vector<coir::task<void>> waiting;
      for (int i = 0; i < 10; ++i) waiting.push_back(coir::spawn([&] { door.pass(); }));
      until_blocked(waiting);
      lose();
      door.open();
      for (coir::task<void>& t : waiting) t.get();
    }
  });
}

TEST_P(Retake, ThenItEnds) {
  run([] {
    for (const auto lose : ways)
      for (int i = 0; i < 5; ++i) coir::spawn([lose] { lose(); }).get();
  });
}

TEST_P(Retake, ThenItThrows) {
  run([] {
    for (const auto lose : ways) {
      coir::task<int> failing = coir::spawn([lose]() -> int {
        lose();
        throw std::runtime_error("lost");
      });
      EXPECT_THROW(failing.get(), std::runtime_error);
    }
  });
}

TEST_P(Retake, ThenMainReturns) {
  for (const auto lose : ways) {
    EXPECT_EQ(run([lose] {
                lose();
                return 7;
              }),
              7);
  }
}

TEST_P(Retake, ThenItIsCancelled) {
  run([] {
    for (const auto lose : ways) {
      gate never;
      coir::task<void> lost = coir::spawn([&] {
        lose();
        never.pass();
      });
      lost.request_stop();
      EXPECT_THROW(lost.get(), coir::task_cancelled);
    }
  });
}

TEST_P(Retake, InsideACatchBlock) {
  run([] {
    for (const auto lose : ways) {
      try {
        throw std::runtime_error("kept");
      } catch (const std::runtime_error&) {
        lose();
        coir::yield();
        try {
          throw;
        } catch (const std::runtime_error& e) {
          EXPECT_STREQ(e.what(), "kept");
        }
      }
    }
  });
}

TEST_P(Retake, ALostFiberIsNoDeadlock) {
  run([] {
    const pipe_pair pipe;
    gate door;
    coir::task<void> reader = coir::spawn([&] {
      pipe.read();
      door.open();
    });
    coir::task<void> waiter = coir::spawn([&] { door.pass(); });
    coir::go([&] {
      until_blocked(waiter);
      pipe.write('x');
    });
    reader.get();  // while it blocks its thread all others are asleep
    waiter.get();
  });
}

TEST_P(Retake, ADeadlockAfterItIsReported) {
  for (const auto lose : ways) {
    EXPECT_THROW(run([lose] {
                   gate never;
                   lose();
                   never.pass();
                 }),
                 coir::deadlock);
  }
}

/// Ten thousand in all, with three numbers of processors; under the sanitizers as well, since ThreadSanitizer looks
/// here at how processors change hands.
std::uint64_t share_of_ten_thousand(unsigned processors) {
  return processors == 1 ? 2'000 : processors == 2 ? 3'000 : 5'000;
}

TEST_P(Retake, TenThousandTimesInAllByBlocking) {
  coir::runtime rt{opts()};
  rt.run([&] {
    // Pairs that block their threads for each other, so that every round needs a processor to be handed on.
    const int pairs = static_cast<int>(GetParam());
    const int rounds = static_cast<int>(share_of_ten_thousand(GetParam())) / (2 * pairs) + 1;
    std::vector<coir::task<void>> all;
    for (int k = 0; k < pairs; ++k) {
      all.push_back(coir::spawn([rounds] {
        std::binary_semaphore ping{0};
        std::binary_semaphore pong{0};
        coir::task<void> other = coir::spawn([&] {
          for (int i = 0; i < rounds; ++i) {
            coir::blocking([&] { ping.acquire(); });
            pong.release();
            if (i % 3 == 0) coir::yield();
          }
        });
        for (int i = 0; i < rounds; ++i) {
          ping.release();
          coir::blocking([&] { pong.acquire(); });
          if (i % 5 == 0) coir::yield();
        }
        other.get();
      }));
    }
    for (coir::task<void>& t : all) t.get();
  });
}

TEST_P(Retake, TenThousandTimesInAllByTheMonitor) {
  coir::runtime rt{opts()};
  rt.run([&] {
    std::atomic<bool> stop{false};
    std::vector<coir::task<void>> all;
    for (unsigned k = 0; k < 4 * GetParam(); ++k) {  // so many that every processor has one that blocks
      all.push_back(coir::spawn([&] {
        while (!stop) {
          block_the_thread();
          coir::yield();  // which takes it back to a processor, to be retaken again
        }
      }));
    }
    coir_test::until([&] { return rt.metrics().retaken >= share_of_ten_thousand(GetParam()); });
    stop = true;
    for (coir::task<void>& t : all) t.get();
  });
}

// ---- blocking() ----------------------------------------------------------------------------------------------------

TEST_P(Retake, BlockingReturnsWhatTheFunctionReturnsAndThrowsWhatItThrows) {
  run([] {
    EXPECT_EQ(coir::blocking([] { return std::string("result"); }), "result");
    EXPECT_THROW(coir::blocking([]() -> int { throw std::runtime_error("inside"); }), std::runtime_error);
    int value = 0;
    coir::blocking([&]() -> int& { return value; }) = 5;
    EXPECT_EQ(value, 5);
    coir::blocking([] {});
  });
  EXPECT_EQ(coir::blocking([] { return 1; }), 1);  // outside a fiber
}

TEST_P(Retake, BlockingLetsOthersRunAtOnce) {
  run([] {
    std::binary_semaphore ran{0};
    coir::go([&] { ran.release(); });
    coir::blocking([&] { ran.acquire(); });
  });
}

TEST_P(Retake, BlockingMayBeNestedAndMayUseFibersToo) {
  run([] {
    const int sum = coir::blocking([] {
      const int a = coir::blocking([] { return 1; });
      coir::yield();
      coir::task<int> child = coir::spawn([] { return coir::blocking([] { return 2; }); });
      return a + child.get();
    });
    EXPECT_EQ(sum, 3);
  });
}

TEST_P(Retake, BlockingLeavesTimersToOthers) {
  run([] {
    std::binary_semaphore fired{0};
    coir::task<void> sleeper = coir::spawn([&] {
      coir::sleep_for(10ms);
      fired.release();
    });
    coir_test::until_blocked_or_ended(sleeper);
    coir::blocking([&] { fired.acquire(); });
    sleeper.get();
  });
}

// While all threads block and all processors are idle, somebody must still sleep until the next timer.
TEST_P(Retake, BlockingEverywhereLeavesTimersToSomebody) {
  coir::runtime rt{opts()};
  std::binary_semaphore fired{0};
  std::atomic<int> blocked{0};
  rt.go([&] {
    coir::sleep_for(50ms);
    fired.release();
  });
  const int many = static_cast<int>(GetParam()) + 1;
  for (int i = 0; i < many; ++i) {
    rt.go([&] {
      coir::blocking([&] {
        ++blocked;
        fired.acquire();
        fired.release();
      });
    });
    coir_test::until([&] { return blocked > i; });  // one after the other, each on a processor that goes idle again
  }
  rt.wait();
}

// ---- threads -------------------------------------------------------------------------------------------------------

std::size_t threads_of_process() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("Threads:", 0) == 0) return std::stoul(line.substr(8));
  return 0;
}

TEST_P(Retake, ThreadsAreReusedAndEndWhenTheyAreNotNeeded) {
  constexpr int count = 30;
  coir::runtime rt{opts()};
  rt.run([] {});
  const std::size_t at_first = threads_of_process();
  // The threads of so many fibers that block them all at once.
  const auto block_at_once = [] {
    std::atomic<int> blocked{0};
    std::vector<coir::task<pid_t>> all;
    for (int i = 0; i < count; ++i) {
      all.push_back(coir::spawn([&] {
        return coir::blocking([&] {
          for (++blocked; blocked < count;) std::this_thread::sleep_for(100us);
          return static_cast<pid_t>(::syscall(SYS_gettid));
        });
      }));
    }
    std::set<pid_t> threads;
    for (coir::task<pid_t>& t : all) threads.insert(t.get());
    return threads;
  };
  std::set<pid_t> known = rt.run(block_at_once);
  EXPECT_EQ(known.size(), std::size_t{count});
  // New ones are few, unless so much time has passed between two rounds that some have ended.
  coir_test::until([&] {
    const std::size_t before = known.size();
    known.merge(rt.run(block_at_once));
    return known.size() <= before + 5;
  });
  if (GetParam() == 1) coir_test::until([&] { return threads_of_process() <= at_first + GetParam() + 1; });
  rt.wait();
}

struct last_words {
  int used = 0;
  ~last_words() {
    if (coir::runtime* rt = where) rt->go([this_many = used] { said += this_many; });
  }
  static inline std::atomic<coir::runtime*> where{nullptr};
  static inline std::atomic<int> said{0};
};
thread_local last_words words;

[[gnu::noinline]] void use_words() { words.used = 1; }

// A thread ends in mid-life of its runtime, and the destructors of its thread_locals may use coir.
TEST_P(Retake, AThreadThatEndsIsNoWorkerAnyMore) {
  if (GetParam() != 1) GTEST_SKIP() << "of more processors' threads it is not certain that one ends";
  coir::runtime rt{opts()};
  last_words::where = &rt;
  last_words::said = 0;
  std::vector<coir::task<void>> all;
  std::atomic<int> blocked{0};
  for (int i = 0; i < 4; ++i) {
    all.push_back(rt.spawn([&] {
      coir::blocking([&] {
        use_words();
        for (++blocked; blocked < 4;) std::this_thread::sleep_for(100us);
      });
    }));
  }
  for (coir::task<void>& t : all) t.get();
  coir_test::until([&] { return last_words::said >= 1; });
  last_words::where = nullptr;
  rt.wait();
}

struct long_goodbye {
  bool used = false;
  ~long_goodbye() {
    if (!used) return;
    ++ending;
    while (!may_end) std::this_thread::sleep_for(1ms);
  }
  static inline std::atomic<int> ending{0};
  static inline std::atomic<bool> may_end{false};
};
thread_local long_goodbye goodbye;

[[gnu::noinline]] void use_goodbye() { goodbye.used = true; }

// Its destructors may take as long as they like, or wait for fibers: who needs a thread meanwhile gets another one.
TEST_P(Retake, NobodyWaitsForAThreadThatEnds) {
  if (GetParam() != 1) GTEST_SKIP() << "of more processors' threads it is not certain that one ends";
  coir::runtime rt{opts()};
  long_goodbye::ending = 0;
  long_goodbye::may_end = false;
  std::atomic<bool> unblocked{false};
  const auto block = [&](int count, auto and_do) {
    const auto blocked = std::make_shared<std::atomic<int>>(0);
    std::vector<coir::task<void>> all;
    for (int i = 0; i < count; ++i) {
      all.push_back(rt.spawn([&unblocked, blocked, and_do] {
        coir::blocking([&] {
          and_do();
          for (++*blocked; !unblocked;) std::this_thread::sleep_for(100us);
        });
      }));
    }
    coir_test::until([&] { return *blocked == count; });
    return all;
  };
  std::vector<coir::task<void>> first = block(4, [] { use_goodbye(); });
  unblocked = true;
  for (coir::task<void>& t : first) t.get();
  coir_test::until([] { return long_goodbye::ending >= 1; });
  unblocked = false;
  std::atomic<bool> over{false};
  std::thread give_up([&] {  // so that a failure is one, and does not hang
    for (int i = 0; i < 20'000 && !over; ++i) std::this_thread::sleep_for(1ms);
    long_goodbye::may_end = true;
  });
  std::vector<coir::task<void>> second = block(6, [] {});
  EXPECT_FALSE(long_goodbye::may_end) << "somebody has waited for the end of a thread";
  over = true;
  give_up.join();
  unblocked = true;
  for (coir::task<void>& t : second) t.get();
  rt.wait();
}

TEST_P(Retake, AsManyThreadsAsProcessorsAreEnoughForFibersThatDoNotBlockThem) {
  coir::options o = opts();
  o.max_threads = GetParam();
  for (int i = 0; i < scaled(100); ++i) {
    coir::runtime rt{o};
    rt.go([] {});
    rt.wait();
  }
}

using RetakeDeathTest = Retake;

TEST_P(RetakeDeathTest, TooManyBlockedThreadsAreReported) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  coir::options o = opts();
  o.max_threads = GetParam() + 3;
  EXPECT_EXIT(coir::run(o,
                        [] {
                          const pipe_pair pipe;
                          std::vector<coir::task<char>> readers;
                          for (int i = 0; i < 40; ++i) readers.push_back(coir::spawn([&] { return pipe.read(); }));
                          for (coir::task<char>& t : readers) t.get();
                        }),
              testing::KilledBySignal(SIGABRT), "threads .options::max_threads. are blocked");
}

INSTANTIATE_TEST_SUITE_P(Processors, Retake, coir_test::processors, coir_test::processors_name);
INSTANTIATE_TEST_SUITE_P(Processors, RetakeDeathTest, coir_test::processors, coir_test::processors_name);

}  // namespace
