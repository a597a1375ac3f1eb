// How soon fibers that wait for descriptors run, and what their waiting costs: by counts, since times are the
// machine's.
#include <coir/io.hpp>
#include <coir/net.hpp>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/resource.h>

#include <coir/metrics.hpp>

#include "net_test.hpp"

namespace {

using coir::net::unix_stream;
using coir_test::scaled;
using coir_test::until_blocked;
using net_test::put;
using net_test::take;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

/// Tests with thousands of descriptors.
class io_latency_test : public net_test::io_test {
 protected:
  static constexpr std::size_t many = coir_test::thread_sanitizer ? 300 : 1000;

  void SetUp() override {
    ::rlimit room{};
    ::getrlimit(RLIMIT_NOFILE, &room);
    if (room.rlim_max < 2 * many + 100) GTEST_SKIP() << "this process may not have that many descriptors";
    room.rlim_cur = room.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &room);
  }

  static std::vector<std::pair<unix_stream, unix_stream>> pairs() {
    std::vector<std::pair<unix_stream, unix_stream>> all;
    for (std::size_t i = 0; i < many; ++i) all.push_back(unix_stream::pair());
    return all;
  }
};

// The runtime has done nothing else meanwhile than to wake these fibers.
TEST_P(io_latency_test, AThousandThatBecomeReadyCostFewWakes) {
  auto all = pairs();
  coir::runtime rt(opts());
  std::vector<coir::task<void>> readers;
  for (auto& [a, b] : all) readers.push_back(rt.spawn([&b = b] { take(b, 1); }));
  until_blocked(readers);
  const coir::metrics_snapshot before = rt.metrics();
  for (auto& [a, b] : all) put(a, "x");
  for (auto& t : readers) t.get();
  const coir::metrics_snapshot after = rt.metrics();
  EXPECT_LT(after.wakes - before.wakes, many / 4);
}

// ... and in one go, from a fiber that does not let go before.
TEST_P(io_latency_test, AThousandThatAreReadyAtOnceCostFewWakesAndHoldUpNobody) {
  run([&] {
    auto all = pairs();
    std::atomic<std::size_t> done{0};
    std::vector<coir::task<void>> readers;
    for (auto& [a, b] : all)
      readers.push_back(coir::spawn([&, &b = b] {
        take(b, 1);
        ++done;
      }));
    until_blocked(readers);
    std::size_t turns_meanwhile = 0;
    coir::task<void> other = coir::spawn([&] {
      for (; done < many; coir::yield())
        if (done > 0) ++turns_meanwhile;
    });
    const coir::metrics_snapshot before = coir::metrics();
    for (auto& [a, b] : all) put(a, "x");
    for (auto& t : readers) t.get();
    other.get();
    const coir::metrics_snapshot after = coir::metrics();
    EXPECT_LT(after.wakes - before.wakes, many / 4);
    // With several, the operating system may keep the other fiber's thread from running all the time.
    if (GetParam() == 1) {
      EXPECT_GT(turns_meanwhile, 0U);
    }
  });
}

// The kernel had exactly as many as fit into a batch, so it might have more; it is asked once, and not for ever.
TEST_P(io_latency_test, AFullBatchIsNoReasonToAskAgainAndAgain) {
  run([&] {
    constexpr std::size_t batch = 128;
    auto all = pairs();
    std::vector<coir::task<void>> readers;
    for (std::size_t i = 0; i < batch; ++i) readers.push_back(coir::spawn([&b = all[i].second] { take(b, 1); }));
    until_blocked(readers);
    for (std::size_t i = 0; i < batch; ++i) put(all[i].first, "x");
    for (auto& t : readers) t.get();
    const coir::metrics_snapshot before = coir::metrics();
    for (int i = 0; i < scaled(200'000); ++i) coir::yield();  // nobody else: each is a pick
    const coir::metrics_snapshot after = coir::metrics();
    EXPECT_LT(after.polls - before.polls, 100U + 2 * (after.looks - before.looks));
  });
}

// The worker that sleeps in the poller is woken by the kernel, and runs the fiber itself.
TEST_P(io_latency_test, AFiberThatBecomesReadyInAnIdleRuntimeNeedsNoFurtherWake) {
  auto [a, b] = unix_stream::pair();
  const std::uint64_t rounds = scaled(std::uint64_t{500}) + 20;
  coir::runtime rt(opts());
  coir::task<void> echo = rt.spawn([&b = b] {
    std::byte room[1];
    while (b.read_some(room) != 0) b.write(room);
  });
  until_blocked(echo);
  const coir::metrics_snapshot before = rt.metrics();
  for (std::uint64_t i = 0; i < rounds; ++i) {
    put(a, "x");
    EXPECT_EQ(take(a, 1), "x");
  }
  const coir::metrics_snapshot after = rt.metrics();
  a.close();
  echo.get();
  EXPECT_LT(after.wakes - before.wakes, rounds / 2 + 20);
}

TEST_P(io_latency_test, SocketsAreServedWhileAllProcessorsCompute) {
  auto [a, b] = unix_stream::pair();
  std::atomic<bool> over{false};
  std::atomic<unsigned> computing{0};
  coir::runtime rt(opts());
  coir::task<void> echo = rt.spawn([&b = b] {
    std::byte room[1];
    while (b.read_some(room) != 0) b.write(room);
  });
  until_blocked(echo);
  std::vector<coir::task<void>> fibers;
  for (unsigned i = 0; i < GetParam(); ++i)
    fibers.push_back(rt.spawn([&] {
      ++computing;
      while (!over) {
      }
    }));
  coir_test::until([&] { return computing == GetParam(); });
  for (int i = 0; i < 3; ++i) {  // ends if the fiber is served; the fibers that compute never look
    put(a, "x");
    EXPECT_EQ(take(a, 1), "x");
  }
  over = true;
  for (auto& t : fibers) t.get();
  a.close();
  echo.get();
}

// Beside fibers that always find something to do and let go, as a server under load does.
TEST_P(io_latency_test, SocketsAreServedBesideFibersThatYield) {
  run([&] {
    auto [a, b] = unix_stream::pair();
    std::atomic<bool> over{false};
    std::vector<coir::task<void>> fibers;
    for (unsigned i = 0; i < 4 * GetParam(); ++i)
      fibers.push_back(coir::spawn([&] {
        while (!over) coir::yield();
      }));
    coir::task<void> echo = coir::spawn([&b = b] {
      std::byte room[1];
      while (b.read_some(room) != 0) b.write(room);
    });
    for (int i = 0; i < scaled(50) + 5; ++i) {
      put(a, "x");
      EXPECT_EQ(take(a, 1), "x");
    }
    over = true;
    a.close();
    for (auto& t : fibers) t.get();
    echo.get();
  });
}

TEST_P(io_latency_test, IdleConnectionsCostNoWakeUps) {
  auto all = pairs();
  coir::runtime rt(opts());
  std::vector<coir::task<void>> readers;
  for (auto& [a, b] : all)
    readers.push_back(rt.spawn([&b = b] {
      std::byte room[1];
      b.set_read_deadline(steady_clock::now() + 24h);
      b.read_some(room);
    }));
  until_blocked(readers);
  const auto sleeps = [] {
    ::rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    return used.ru_nvcsw;
  };
  // An idle runtime goes to sleep in steps; none of them takes longer.
  std::this_thread::sleep_for(50ms);
  const coir::metrics_snapshot before = rt.metrics();
  const long slept_before = sleeps();
  std::this_thread::sleep_for(200ms);
  const coir::metrics_snapshot after = rt.metrics();
  EXPECT_LT(sleeps() - slept_before, 30);
  EXPECT_LT(after.wakes - before.wakes, 5U);
  EXPECT_LT(after.futex_calls - before.futex_calls, 20U);
  for (auto& [a, b] : all) a.close();
  for (auto& t : readers) t.get();
}

INSTANTIATE_TEST_SUITE_P(Processors, io_latency_test, coir_test::processors, coir_test::processors_name);

}  // namespace
