// dump(): what it says of fibers in each state, what it takes together, and that it disturbs nobody.
#include <coir/dump.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <coir/async.hpp>
#include <coir/generator.hpp>
#include <coir/sleep.hpp>

#include "coir_test.hpp"
#include "gate.hpp"

namespace {

using runtime_test::gate;
using namespace std::chrono_literals;

std::string dumped() {
  std::ostringstream out;
  coir::dump(out);
  return out.str();
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

bool shows_stacks(const std::string& text) { return !has(text, "no stacks"); }

/// The paragraph that has `part` in it.
std::string entry(const std::string& text, const std::string& part) {
  const std::size_t at = text.find(part);
  if (at == text.npos) return {};
  const std::size_t begin = text.rfind("\n\n", at);
  return text.substr(begin == text.npos ? 0 : begin + 2, text.find("\n\n", at) - begin - 2);
}

// Not inlined, nor left by a tail call: to be found on a stack by their names.
extern "C" [[gnu::noinline]] void dump_test_waits_here(gate& g) {
  g.pass();
  asm volatile("" ::: "memory");
}
extern "C" [[gnu::noinline]] void dump_test_sleeps_here() {
  coir::sleep_for(1h);
  asm volatile("" ::: "memory");
}
extern "C" [[gnu::noinline]] int dump_test_goes_down(gate& g, int levels) {
  char room[256];
  asm volatile("" : : "r"(room) : "memory");
  if (levels == 0) {
    dump_test_waits_here(g);
    return 1;
  }
  const int deeper = dump_test_goes_down(g, levels - 1);
  asm volatile("" : : "r"(room) : "memory");
  return deeper + 1;
}
extern "C" [[gnu::noinline]] void dump_test_yields_here(const std::atomic<bool>& stop) {
  while (!stop) coir::yield();
}

class dump_test : public coir_test::with_processors {};

TEST(dump_plain_test, SaysThatThereIsNothing) {
  EXPECT_EQ(dumped(), "coir: 0 fibers in 0 runtimes: 0 running, 0 queued, 0 blocked, 0 not started\n");
  coir::runtime rt;
  EXPECT_EQ(dumped(), "coir: 0 fibers in 1 runtime: 0 running, 0 queued, 0 blocked, 0 not started\n");
}

TEST_P(dump_test, ShowsABlockedFiber) {
  run([] {
    gate g;
    std::uint32_t line = 0;
    coir::task<void> waits = coir::spawn(
        [&] {  // the next line is noted
          coir::this_fiber::set_name("the one");
          dump_test_waits_here(g);
        },
        coir::source_location("somewhere.cpp", line = 77));
    coir_test::until_blocked(waits);
    const std::string text = dumped();
    std::ostringstream begin, on;
    begin << "fiber " << waits.id().number() << " \"the one\", spawned at somewhere.cpp:" << line << ": blocked for ";
    on << " in gate " << static_cast<void*>(&g) << '\n';
    const std::string found = entry(text, begin.str());
    EXPECT_NE(found, "") << text;
    EXPECT_TRUE(has(found, on.str())) << text;
    if (shows_stacks(text)) {
      EXPECT_TRUE(has(found, "\n    dump_test_waits_here+0x")) << text;
      EXPECT_FALSE(has(found, "coir::detail::")) << "the user's calls alone:\n" << text;
      EXPECT_FALSE(has(found, "    ...")) << text;
    }
    g.open();
  });
}

TEST_P(dump_test, ShowsTheCallerAsRunningOnItsThread) {
  run([] {
    coir::this_fiber::set_name("asks");
    const std::string text = dumped();
    EXPECT_TRUE(has(text, "coir: 1 fiber in 1 runtime: 1 running, 0 queued, 0 blocked, 0 not started\n")) << text;
    EXPECT_TRUE(has(text, " \"asks\", spawned at ")) << text;
    EXPECT_TRUE(has(text, ": running on thread " + std::to_string(::gettid()) + '\n')) << text;
  });
}

TEST_P(dump_test, TakesTogetherWhatIsAlike) {
  run([] {
    gate g;
    std::vector<coir::task<void>> alike;
    for (int i = 0; i < 20; ++i) alike.push_back(coir::spawn([&g] { dump_test_waits_here(g); }));
    coir::task<void> other = coir::spawn([&g] { dump_test_waits_here(g); });  // spawned elsewhere
    coir::task<void> sleeps = coir::spawn([] { dump_test_sleeps_here(); });
    coir_test::until_blocked(alike);
    coir_test::until_blocked(other);
    coir_test::until_blocked(sleeps);
    const std::string text = dumped();
    const std::string found = entry(text, "20 fibers, spawned at ");
    EXPECT_NE(found, "") << text;
    for (const auto& t : alike) {
      const std::string id = std::to_string(t.id().number());
      EXPECT_FALSE(has(text, "fiber " + id + ',')) << "alone:\n" << text;
    }
    EXPECT_EQ(count(text, " in gate "), 2U) << text;
    EXPECT_EQ(count(text, "fiber " + std::to_string(other.id().number()) + ", spawned"), 1U) << text;
    EXPECT_TRUE(has(text, " in sleep\n")) << text;
    if (shows_stacks(text)) {
      EXPECT_EQ(count(text, "dump_test_waits_here"), 2U) << text;
      EXPECT_EQ(count(text, "dump_test_sleeps_here"), 1U) << text;
    }
    sleeps.request_stop();
    g.open();
  });
}

TEST_P(dump_test, KeepsApartWhoGotThereOnAnotherPath) {
  run([] {
    gate g;
    const auto start = [&g](bool deep) {
      return coir::spawn([&g, deep] { deep ? void(dump_test_goes_down(g, 3)) : dump_test_waits_here(g); });
    };
    coir::task<void> shallow = start(false);
    coir::task<void> deep = start(true);
    coir_test::until_blocked(shallow);
    coir_test::until_blocked(deep);
    const std::string text = dumped();
    if (shows_stacks(text)) {
      EXPECT_EQ(count(text, " in gate "), 2U) << text;
      EXPECT_EQ(count(text, "dump_test_goes_down"), 4U) << text;
    }
    g.open();
  });
}

TEST_P(dump_test, ADeepStackIsShownAsFarAsItIsCopied) {
  coir::options o = opts();
  o.stack_size = 1 << 20;
  coir::run(o, [] {
    gate g;
    coir::task<void> deep = coir::spawn([&g] { dump_test_goes_down(g, coir_test::address_sanitizer ? 900 : 1500); });
    coir_test::until_blocked(deep);
    const std::string text = dumped();
    if (shows_stacks(text)) {
      EXPECT_GT(count(text, "dump_test_goes_down"), 50U) << text;
      EXPECT_TRUE(has(text, "\n    ...\n")) << text;
    }
    g.open();
  });
}

TEST_P(dump_test, FibersWithNumbersInARowAreARange) {
  run([] {
    gate g;
    std::atomic<int> begun{0}, ended{0};
    std::vector<std::uint64_t> numbers;
    for (int i = 0; i < 100; ++i) {
      coir::go([&] {
        numbers.push_back(coir::this_fiber::get_id().number());
        ++begun;
        dump_test_waits_here(g);
        ++ended;
      });
      coir_test::until([&] { return begun == i + 1; });  // each has begun before the next one is made
    }
    std::string text;
    coir_test::until([&] {  // the last one has not only begun, but blocked
      text = dumped();
      return has(text, "\n100 fibers, spawned at ");
    });
    // One range, but where the block of numbers that a worker takes at a time ended.
    if (numbers.back() - numbers.front() == 99) {
      EXPECT_TRUE(has(text, "\n  " + std::to_string(numbers.front()) + '-' + std::to_string(numbers.back()) + '\n'))
          << text;
    }
    EXPECT_LE(count(text, ", "), 20U) << text;
    g.open();
    coir_test::until([&] { return ended == 100; });
  });
}

TEST_P(dump_test, OfVeryManyFibersSomeNumbersAreGiven) {
  constexpr std::size_t fibers = 2'000;
  run([] {
    gate g;
    std::vector<coir::task<void>> named;
    for (std::size_t i = 0; i < fibers; ++i) {
      named.push_back(coir::spawn([&g, i] {
        coir::this_fiber::set_name("number " + std::to_string(i));
        dump_test_waits_here(g);
      }));
    }
    coir_test::until_blocked(named);
    const std::string text = dumped();
    EXPECT_TRUE(has(text, "\n2000 fibers, spawned at ")) << text;
    const std::size_t given = count(text, " \"number ");
    EXPECT_GE(given, 20U) << text;
    EXPECT_TRUE(has(text, " and " + std::to_string(fibers - given) + " more\n")) << text;
    EXPECT_LT(text.size(), 5'000U) << text;
    g.open();
  });
}

TEST_P(dump_test, TellsForHowLong) {
  run([] {
    gate g;
    coir::task<void> waits = coir::spawn([&g] { dump_test_waits_here(g); });
    coir_test::until_blocked(waits);
    coir::sleep_for(1100ms);
    const std::string text = dumped();
    EXPECT_TRUE(has(text, " s in gate ")) << "seconds, not less, nor hours since the machine was started:\n" << text;
    EXPECT_FALSE(has(text, " ms in gate ")) << text;
    g.open();
  });
}

TEST_P(dump_test, ListsThoseThatHaveNotStarted) {
  coir::options o = opts();
  o.time_slice = 1h;  // nobody else starts them meanwhile
  coir::run(o, [] {
    std::vector<coir::task<void>> fresh;
    std::atomic<bool> stop{false};
    // As many as processors keep all of them busy; what is spawned then waits.
    std::vector<coir::task<void>> busy;
    std::atomic<unsigned> at_work{0};
    for (unsigned i = 1; i < coir::runtime::current().processors(); ++i) {
      busy.push_back(coir::spawn([&] {
        ++at_work;
        while (!stop) {
        }
      }));
    }
    coir_test::until([&] { return at_work == busy.size(); });
    for (int i = 0; i < 3; ++i) fresh.push_back(coir::spawn([] {}, coir::source_location("fresh.cpp", 5)));
    const std::string text = dumped();
    stop = true;
    // else one that computes may have been put aside for them
    if (coir::runtime::current().processors() == 1) {
      EXPECT_TRUE(has(text, "3 fibers, spawned at fresh.cpp:5: not started\n")) << text;
    }
  });
}

coir::async<void> sleeps_stackless() { co_await coir::async_sleep(1h); }

TEST_P(dump_test, ListsCoroutinesThatSleep) {
  run([] {
    std::vector<coir::task<void>> all;
    for (int i = 0; i < 3; ++i) all.push_back(coir::spawn(sleeps_stackless(), coir::source_location("async.cpp", 9)));
    coir_test::until_blocked(all);
    const std::string text = dumped();
    EXPECT_TRUE(has(text, "3 asyncs, spawned at async.cpp:9: blocked in sleep\n")) << text;
    for (const auto& t : all) t.request_stop();
  });
}

TEST_P(dump_test, FollowsAFiberIntoTheBodyOfAGenerator) {
  run([] {
    gate g;
    coir::task<void> waits = coir::spawn([&g] {
      coir::generator<int> numbers([&g](coir::generator<int>::yielder& out) {
        dump_test_waits_here(g);
        out(1);
      });
      for (const int n : numbers) EXPECT_EQ(n, 1);
    });
    coir_test::until_blocked(waits);
    const std::string text = dumped();
    EXPECT_TRUE(has(text, " in gate ")) << text;
    if (shows_stacks(text)) {
      EXPECT_TRUE(has(text, "\n    dump_test_waits_here+0x")) << text;
    }
    g.open();
  });
}

TEST_P(dump_test, ComesFromAForeignThreadToo) {
  gate g;
  std::optional<std::string> text;
  run([&] {
    coir::task<void> waits = coir::spawn([&g] { dump_test_waits_here(g); });
    coir_test::until_blocked(waits);
    std::thread([&] { text = dumped(); }).join();
    g.open();
  });
  EXPECT_TRUE(has(*text, " in gate ")) << *text;
  EXPECT_TRUE(has(*text, ": running on thread ")) << *text;
}

TEST_P(dump_test, HasEveryRuntime) {
  gate g;
  coir::runtime one(opts()), two(opts());
  coir::task<void> first = one.spawn([&g] { dump_test_waits_here(g); }, coir::source_location("one.cpp", 1));
  coir::task<void> second = two.spawn([&g] { dump_test_waits_here(g); }, coir::source_location("two.cpp", 2));
  coir_test::until_blocked(first);
  coir_test::until_blocked(second);
  const std::string text = dumped();
  EXPECT_TRUE(has(text, "coir: 2 fibers in 2 runtimes: 0 running, 0 queued, 2 blocked")) << text;
  EXPECT_TRUE(has(text, "spawned at one.cpp:1")) << text;
  EXPECT_TRUE(has(text, "spawned at two.cpp:2")) << text;
  g.open();
}

// Fibers that block, wake each other, yield, rename themselves, end and begin, while the list is taken again and again.
TEST_P(dump_test, MayBeTakenWhileEverythingMoves) {
  std::atomic<bool> stop{false};
  coir::runtime rt(opts());
  std::vector<coir::task<void>> all;
  std::vector<std::unique_ptr<gate>> gates;
  const int pairs = coir_test::thread_sanitizer ? 20 : 200;
  for (int i = 0; i < pairs; ++i) {
    gates.push_back(std::make_unique<gate>());
    gate& g = *gates.back();
    all.push_back(rt.spawn([&g, &stop, i] {
      while (!stop) {
        coir::this_fiber::set_name(std::string(static_cast<std::size_t>(i % 40), 'x'));
        g.shut();
        g.pass_for(1ms);
        coir::spawn([] { coir::yield(); }).wait();
      }
    }));
    all.push_back(rt.spawn([&g, &stop] {
      while (!stop) {
        g.open();
        coir::sleep_for(100us);
      }
    }));
  }
  all.push_back(rt.spawn([&stop] { dump_test_yields_here(stop); }));
  all.push_back(rt.spawn([&stop] { dump_test_yields_here(stop); }));
  const int rounds = coir_test::scaled(60);
  std::thread outside([&] {
    for (int i = 0; i < rounds; ++i) EXPECT_TRUE(has(dumped(), " in 1 runtime: "));
  });
  rt.run([&] {
    for (int i = 0; i < rounds; ++i) {
      EXPECT_TRUE(has(dumped(), " in 1 runtime: "));
      coir::yield();
    }
  });
  outside.join();
  stop = true;
  for (auto& t : all) t.get();
}

TEST_P(dump_test, MayBeTakenWhileRuntimesComeAndGo) {
  std::atomic<bool> stop{false};
  std::thread watcher([&] {
    while (!stop) dumped();
  });
  for (int i = 0; i < coir_test::scaled(200); ++i) {
    run([] {
      for (int k = 0; k < 10; ++k) coir::go([] { coir::yield(); });
    });
  }
  stop = true;
  watcher.join();
}

// ---- by signal -----------------------------------------------------------------------------------------------------

/// In a process of its own: what is written to stderr goes to a file in memory, which can be looked at, and at the end
/// to where it belongs.
class captured_stderr {
 public:
  captured_stderr() : stderr_(::dup(STDERR_FILENO)), file_(::memfd_create("stderr", 0)) {
    ::alarm(60);
    ::dup2(file_, STDERR_FILENO);
  }

  std::string text() const {
    std::string all;
    char buffer[4096];
    for (ssize_t n = 0; (n = ::pread(file_, buffer, sizeof buffer, static_cast<off_t>(all.size()))) > 0;)
      all.append(buffer, static_cast<std::size_t>(n));
    return all;
  }

  [[noreturn]] void end_process() const {
    const std::string all = text();
    ::_exit(::write(stderr_, all.data(), all.size()) == static_cast<ssize_t>(all.size()) ? 0 : 1);
  }

 private:
  int stderr_;
  int file_;
};

class dump_by_signal_test : public dump_test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

[[noreturn]] void ask_twice(const coir::options& o) {
  const captured_stderr file;
  coir::dump_on_signal();
  coir::dump_on_signal(SIGUSR1);
  coir::run(o, [&] {
    gate g;
    coir::task<void> waits = coir::spawn([&g] { dump_test_waits_here(g); });
    coir_test::until_blocked(waits);
    // raise(): ThreadSanitizer keeps a signal that hits a sleeping thread until that wakes.
    ::raise(SIGQUIT);
    coir_test::until([&] { return count(file.text(), " in gate ") == 1; });
    ::raise(SIGUSR1);
    coir_test::until([&] { return count(file.text(), " in gate ") == 2; });
    g.open();
  });
  file.end_process();
}

TEST_P(dump_by_signal_test, IsWrittenToStderr) {
  EXPECT_EXIT(ask_twice(opts()), testing::ExitedWithCode(0), "coir: 2 fibers in 1 runtime: .* in gate .* in gate ");
}

[[noreturn]] void ask_and_block_forever(const coir::options& o) {
  const captured_stderr file;
  coir::dump_on_signal();
  ::raise(SIGQUIT);
  coir_test::until([&] { return has(file.text(), "coir: 0 fibers"); });
  try {
    coir::run(o, [] {
      gate g;
      g.pass();
    });
  } catch (const coir::deadlock& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
  file.end_process();
}

TEST_P(dump_by_signal_test, DoesNotHideADeadlock) {
  EXPECT_EXIT(ask_and_block_forever(opts()), testing::ExitedWithCode(0), "all fibers are asleep - deadlock!");
}

TEST(dump_plain_test, RefusesASignalThatCannotBeHandled) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        try {
          coir::dump_on_signal(SIGKILL);
        } catch (const std::system_error& e) {
          std::fprintf(stderr, "%s\n", e.what());
          ::_exit(0);
        }
      },
      testing::ExitedWithCode(0), "coir: dump_on_signal: ");
}

INSTANTIATE_TEST_SUITE_P(Processors, dump_by_signal_test, coir_test::processors, coir_test::processors_name);
INSTANTIATE_TEST_SUITE_P(Processors, dump_test, coir_test::processors, coir_test::processors_name);

}  // namespace
