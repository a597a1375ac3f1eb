// timeout(d, f): in time, f's result; else `timed_out`, once f has unwound; and nothing of it is left.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <coir/chan.hpp>
#include <coir/condition_variable.hpp>
#include <coir/mutex.hpp>
#include <coir/runtime.hpp>
#include <coir/select.hpp>
#include <coir/semaphore.hpp>
#include <coir/task_group.hpp>
#include <coir/timeout.hpp>
#include <coir/wait_group.hpp>

#include "../runtime/counted.hpp"
#include "coir_test.hpp"

namespace {

using coir_test::scaled;
using runtime_test::counted;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

class Timeout : public runtime_test::leak_checked {
 protected:
  /// Runs f in a fiber and, after that, in a plain thread.
  void in_both(const std::function<void()>& f) const {
    run([&] { f(); });
    std::thread(f).join();
  }
};

void block_forever() { coir::make_chan<void>().recv(); }

/// What is left of a timeout would end this.
void expect_no_trace() { EXPECT_NO_THROW(coir::sleep_for(1us)); }

TEST_P(Timeout, ReturnsWhatFReturnsInTime) {
  in_both([] {
    EXPECT_EQ(coir::timeout(1h, [] { return 42; }), 42);
    EXPECT_EQ(*coir::timeout(1h, [] { return std::make_unique<int>(7); }), 7);
    int x = 0;
    int& same = coir::timeout(1h, [&]() -> int& { return x; });
    EXPECT_EQ(&same, &x);
    coir::timeout(1h, [&] {
      coir::sleep_for(10us);
      x = 1;
    });
    EXPECT_EQ(x, 1);
    EXPECT_THROW(coir::timeout(1h, [] { throw std::runtime_error("own"); }), std::runtime_error);
    expect_no_trace();
  });
}

TEST_P(Timeout, ThrowsTimedOutWhenFHasUnwound) {
  in_both([] {
    for (int i = 0; i < 5; ++i) {
      const auto begin = clock::now();
      bool unwound = false;
      EXPECT_THROW(coir::timeout(2ms,
                                 [&] {
                                   struct at_end {
                                     bool& flag;
                                     ~at_end() { flag = true; }
                                   } const sets{unwound};
                                   const counted c;
                                   block_forever();
                                 }),
                   coir::timed_out);
      EXPECT_TRUE(unwound);
      EXPECT_EQ(counted::live(), 0);
      EXPECT_GE(clock::now() - begin, 2ms);
      expect_no_trace();
    }
  });
}

TEST_P(Timeout, EndsWhateverBlocks) {
  in_both([] {
    const auto out_of_time = [](auto f) { EXPECT_THROW(coir::timeout(500us, f), coir::timed_out); };
    auto ch = coir::make_chan<int>();
    coir::semaphore one(1);
    one.acquire();
    coir::wait_group wg;
    wg.add(1);
    out_of_time([&] { ch.recv(); });
    out_of_time([&] { ch.send(1); });
    out_of_time([&] { coir::select(coir::on_recv(ch), coir::on_send(ch, 2)); });
    out_of_time([&] { coir::select(); });
    out_of_time([&] { coir::chan<int>().recv(); });
    out_of_time([&] { one.acquire(); });
    out_of_time([&] { coir::sleep_for(1h); });
    out_of_time([&] { wg.wait(); });
    out_of_time([&] { static_cast<void>(ch.send_for(3, 1h)); });
    coir::condition_variable cv;
    coir::mutex free;
    out_of_time([&] {
      std::unique_lock held(free);
      try {
        cv.wait(held);
      } catch (const coir::cancelled&) {
        EXPECT_TRUE(held.owns_lock());
        EXPECT_FALSE(free.try_lock());
        throw;
      }
    });
    EXPECT_TRUE(free.try_lock());
    free.unlock();
    wg.done();
    expect_no_trace();
  });
}

TEST_P(Timeout, ANonPositiveOneEndsTheFirstCallThatWouldBlock) {
  in_both([] {
    for (const auto d : {0ns, -1ns, std::chrono::nanoseconds(std::chrono::nanoseconds::min())}) {
      EXPECT_EQ(coir::timeout(d, [] { return 1; }), 1);
      bool began = false, went_on = false;
      EXPECT_THROW(coir::timeout(d,
                                 [&] {
                                   began = true;
                                   block_forever();
                                   went_on = true;
                                 }),
                   coir::timed_out);
      EXPECT_TRUE(began);
      EXPECT_FALSE(went_on);
      expect_no_trace();
    }
  });
}

TEST_P(Timeout, AVeryLongOneDoesNotOverflow) {
  in_both([] {
    const auto nap = [] {
      coir::sleep_for(10us);
      return 1;
    };
    EXPECT_EQ(coir::timeout(std::chrono::hours::max(), nap), 1);
    EXPECT_EQ(coir::timeout(std::chrono::nanoseconds::max(), nap), 1);
    EXPECT_EQ(coir::timeout(std::chrono::duration<double>(1e300), nap), 1);
  });
}

TEST_P(Timeout, TheOuterExpiryIsNotTakenForTheInners) {
  in_both([] {
    std::string seen;
    EXPECT_THROW(coir::timeout(1ms,
                               [&] {
                                 try {
                                   coir::timeout(1h, block_forever);
                                 } catch (const coir::timed_out&) {
                                   seen = "timed_out";
                                   throw;
                                 } catch (const coir::cancelled&) {
                                   seen = "cancelled";
                                   throw;
                                 }
                               }),
                 coir::timed_out);
    EXPECT_EQ(seen, "cancelled");
    expect_no_trace();
  });
}

TEST_P(Timeout, TheInnerExpiryLeavesTheOuterAlone) {
  in_both([] {
    EXPECT_EQ(coir::timeout(1h,
                            [] {
                              EXPECT_THROW(coir::timeout(1ms, block_forever), coir::timed_out);
                              expect_no_trace();
                              EXPECT_THROW(coir::timeout(0ms, block_forever), coir::timed_out);
                              expect_no_trace();
                              return 1;
                            }),
              1);
    expect_no_trace();
  });
}

TEST_P(Timeout, DeepNestsUnwindToTheOneThatIsOver) {
  in_both([] {
    int unwound = 0;
    const std::function<void(int)> nest = [&](int depth) {
      if (depth == 0) block_forever();
      try {
        coir::timeout(1h, [&] { nest(depth - 1); });
      } catch (const coir::cancelled&) {
        ++unwound;
        throw;
      }
    };
    EXPECT_THROW(coir::timeout(1ms, [&] { nest(10); }), coir::timed_out);
    EXPECT_EQ(unwound, 10);
    expect_no_trace();
  });
}

TEST_P(Timeout, AnExpiredOuterOneCancelsWhatFollowsTheInner) {
  in_both([] {
    bool inner = false;
    EXPECT_THROW(coir::timeout(0ms,
                               [&] {
                                 try {
                                   coir::timeout(-1ms, block_forever);
                                 } catch (const coir::timed_out&) {
                                   inner = true;  // its own deadline has passed, too
                                 }
                                 block_forever();
                               }),
                 coir::timed_out);
    EXPECT_TRUE(inner);
    expect_no_trace();
  });
}

TEST_P(Timeout, AnFThatSwallowsTheCancellationHasAResult) {
  in_both([] {
    EXPECT_EQ(coir::timeout(1ms,
                            [] {
                              try {
                                block_forever();
                              } catch (const coir::cancelled&) {
                              }
                              EXPECT_THROW(block_forever(), coir::cancelled);  // it goes on until the scope ends
                              return 5;
                            }),
              5);
    expect_no_trace();
  });
}

TEST_P(Timeout, AnFThatTurnsItIntoItsOwnErrorThrowsThat) {
  in_both([] {
    EXPECT_THROW(coir::timeout(1ms,
                               [] {
                                 try {
                                   block_forever();
                                 } catch (const coir::cancelled&) {
                                   throw std::logic_error("own");
                                 }
                               }),
                 std::logic_error);
    expect_no_trace();
  });
}

TEST_P(Timeout, DoesNotInterruptWhatNeedNotBlock) {
  in_both([] {
    auto ch = coir::make_chan<int>(1);
    coir::mutex m;
    EXPECT_EQ(coir::timeout(-1ms,
                            [&] {
                              ch.send(4);
                              const std::scoped_lock held(m);
                              return *ch.recv();
                            }),
              4);
  });
}

TEST_P(Timeout, UncancellableDefersIt) {
  in_both([] {
    bool slept = false;
    EXPECT_THROW(coir::timeout(1ms,
                               [&] {
                                 {
                                   const coir::uncancellable guard;
                                   coir::sleep_for(3ms);
                                   slept = true;
                                 }
                                 block_forever();
                               }),
                 coir::timed_out);
    EXPECT_TRUE(slept);
    expect_no_trace();
  });
}

TEST_P(Timeout, InsideUncancellableNothingIsEnded) {
  in_both([] {
    const coir::uncancellable guard;
    EXPECT_EQ(coir::timeout(100us,
                            [] {
                              coir::sleep_for(1ms);
                              return 3;
                            }),
              3);
  });
}

TEST_P(Timeout, DestructorsThatUnwindMayBlockInUncancellable) {
  in_both([] {
    bool cleaned = false;
    struct cleaner {
      bool& flag;
      ~cleaner() {
        const coir::uncancellable guard;
        coir::sleep_for(1ms);
        flag = true;
      }
    };
    EXPECT_THROW(coir::timeout(1ms,
                               [&] {
                                 const cleaner cleans{cleaned};
                                 block_forever();
                               }),
                 coir::timed_out);
    EXPECT_TRUE(cleaned);
  });
}

TEST_P(Timeout, ACancellationOfTheTaskIsNotTakenForAnExpiry) {
  run([] {
    coir::task<void> t = coir::spawn([] { coir::timeout(1h, block_forever); });
    coir_test::until_blocked(t);
    t.request_stop();
    EXPECT_THROW(t.get(), coir::task_cancelled);
  });
}

TEST_P(Timeout, AnExpiryDoesNotCancelTheTask) {
  run([] {
    coir::task<bool> t = coir::spawn([] {
      const std::stop_token stop = coir::this_fiber::stop_token();
      EXPECT_THROW(coir::timeout(1ms, block_forever), coir::timed_out);
      return stop.stop_requested();
    });
    EXPECT_FALSE(t.get());
  });
}

TEST_P(Timeout, APendingOneIsNoDeadlock) {
  EXPECT_THROW(run([] { coir::timeout(20ms, block_forever); }), coir::timed_out);
}

TEST_P(Timeout, JoinsAGroupBeforeItThrows) {
  run([] {
    std::atomic<int> ended{0};
    EXPECT_THROW(coir::timeout(2ms,
                               [&] {
                                 coir::task_group g;
                                 for (int i = 0; i < 5; ++i)
                                   g.spawn([&] {
                                     try {
                                       block_forever();
                                     } catch (const coir::cancelled&) {
                                       ++ended;
                                       throw;
                                     }
                                   });
                                 g.wait();
                               }),
                 coir::timed_out);
    EXPECT_EQ(ended, 5);
    expect_no_trace();
  });
}

// A grant that has come before the expiry stands; what was not granted is not lost.
TEST_P(Timeout, NoPermitIsLostWhenTimeoutsRaceReleases) {
  run([] {
    coir::semaphore permits(1);
    coir::wait_group all;
    std::atomic<int> got{0}, missed{0};
    for (int f = 0; f < 8; ++f)
      all.go([&, f] {
        for (int i = 0; i < scaled(500); ++i) {
          try {
            coir::timeout(std::chrono::microseconds((i * 7 + f * 3) % 40), [&] {
              permits.acquire();
              ++got;
            });
            if (i % 4 == 0) coir::yield();
            permits.release();
          } catch (const coir::timed_out&) {
            ++missed;
          }
        }
      });
    all.wait();
    EXPECT_EQ(got + missed, 8 * scaled(500));
    EXPECT_TRUE(permits.try_acquire());  // it is back
  });
}

TEST_P(Timeout, ThreadsAndFibersMeetOverAChannel) {
  coir::runtime rt{opts()};
  auto ch = coir::make_chan<int>();
  const int rounds = scaled(1000);
  std::atomic<std::int64_t> sent{0}, received{0};
  const auto sender = [&] {
    for (int i = 1; i <= rounds; ++i) try {
        coir::timeout(std::chrono::microseconds(i % 50), [&] { ch.send(i); });
        sent += i;
      } catch (const coir::timed_out&) {
      }
  };
  std::vector<std::thread> threads;
  std::vector<coir::task<void>> tasks;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back(sender);
    tasks.push_back(rt.spawn(sender));
  }
  coir::task<void> receiver = rt.spawn([&] {
    for (;;) try {
        const std::optional<int> v = coir::timeout(20us, [&] { return ch.recv(); });
        if (!v) return;
        received += *v;
      } catch (const coir::timed_out&) {
      }
  });
  for (auto& t : threads) t.join();
  for (auto& t : tasks) t.get();
  ch.close();
  receiver.get();
  EXPECT_EQ(sent, received);
}

// Cancelled from outside at the instant the timeout fires: one or the other, never hung.
TEST_P(Timeout, MeetsACancellationFromOutside) {
  run([] {
    int cancelled = 0, timed_out = 0;
    for (int i = 0; i < scaled(2'000); ++i) {
      coir::task<void> t = coir::spawn([] { coir::timeout(30us, block_forever); });
      coir::sleep_for(std::chrono::microseconds(i % 60));
      t.request_stop();
      try {
        t.get();
        ADD_FAILURE() << "neither";
      } catch (const coir::task_cancelled&) {
        ++cancelled;
      } catch (const coir::timed_out&) {
        ++timed_out;
      }
    }
    EXPECT_EQ(cancelled + timed_out, scaled(2'000));
  });
}

// The alarm rings while the scope is being left, again and again; the fiber then goes on to wait without one.
TEST_P(Timeout, TheEndOfAScopeRacesItsAlarm) {
  in_both([] {
    int late = 0;
    for (int i = 0; i < scaled(3'000); ++i) {
      try {
        coir::timeout(std::chrono::microseconds(i % 20), [&] {
          for (const auto until = clock::now() + std::chrono::microseconds(i % 23); clock::now() < until;) {
          }
          if (i % 5 == 0) coir::sleep_for(1us);
        });
      } catch (const coir::timed_out&) {
        ++late;
      }
      ASSERT_NO_THROW(coir::sleep_for(1us));
    }
    static_cast<void>(late);
  });
}

TEST_P(Timeout, ManyAtOnce) {
  run([] {
    const int fibers = static_cast<int>(std::min<std::size_t>(coir_test::max_live_fibers, scaled(20'000)));
    std::atomic<int> expired{0};
    coir::wait_group all;
    for (int i = 0; i < fibers; ++i)
      all.go([&, i] {
        try {
          coir::timeout(std::chrono::microseconds(i % 1000), block_forever);
        } catch (const coir::timed_out&) {
          ++expired;
        }
      });
    all.wait();
    EXPECT_EQ(expired, fibers);
  });
}

TEST_P(Timeout, TheFiberMayEndWithItsScope) {
  run([] {
    for (int i = 0; i < scaled(5'000); ++i)
      coir::spawn([i] {
        try {
          coir::timeout(std::chrono::microseconds(i % 10), [] { coir::yield(); });
        } catch (const coir::timed_out&) {
        }
      }).get();
  });
}

TEST_P(Timeout, OfAThreadMayOutliveARuntime) {
  bool finished = false;
  coir::timeout(1h, [&] {
    run([] { coir::sleep_for(1us); });
    EXPECT_THROW(coir::timeout(1ms, block_forever), coir::timed_out);
    finished = true;
  });
  EXPECT_TRUE(finished);
}

TEST_P(Timeout, DoesNotTakeAnothersCancellationForItsExpiry) {
  run([] {
    coir::task<void> victim = coir::spawn(block_forever);
    std::atomic<bool> stopped{false};
    const auto join = [&] {
      victim.wait();
      coir_test::until([&] { return stopped.load(); });  // get() changes the handle, which request_stop() reads
      victim.get();
    };
    coir::task<void> joiner = coir::spawn([&] {
      EXPECT_THROW(coir::timeout(1h, join), coir::task_cancelled);
      EXPECT_THROW(coir::timeout(1h, [] { throw coir::task_cancelled(); }), coir::task_cancelled);
    });
    coir_test::until_blocked(joiner);
    victim.request_stop();
    stopped = true;
    joiner.get();
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, Timeout, coir_test::processors, coir_test::processors_name);

}  // namespace
