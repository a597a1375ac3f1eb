// coir::call_once: once, for all, after as many tries as it takes.
#include <coir/once.hpp>

#include <memory>
#include <stdexcept>
#include <vector>

#include "actor.hpp"

namespace {

using coir_test::scaled;
using coir_test::until;
using sync_test::actor;
using sync_test::both_kinds;
using sync_test::kind;

class once_test : public coir_test::with_processors {};

TEST_P(once_test, RunsOnceAndAllCallersWaitForIt) {
  run([] {
    for (const kind k : both_kinds) {
      coir::once flag;
      int runs = 0;
      std::atomic<bool> begun{false}, go_on{false};
      std::vector<actor> callers;
      for (int i = 0; i < 5; ++i) {
        callers.emplace_back(k, [&] {
          const auto body = [&](int n) {
            begun = true;
            until([&] { return go_on.load(); });
            runs += n;
          };
          coir::call_once(flag, body, 1);
          EXPECT_EQ(runs, 1) << k;
        });
        if (i > 0)
          callers.back().until_blocked();
        else
          until([&] { return begun.load(); });
      }
      go_on = true;
      for (actor& c : callers) c.join();
      coir::call_once(flag, [&] { ++runs; });
      EXPECT_EQ(runs, 1);
    }
  });
}

TEST_P(once_test, ABodyThatThrowsLetsTheNextTry) {
  run([] {
    coir::once flag;
    coir_test::expect_throw_message<std::runtime_error>(
        [&] { coir::call_once(flag, [] { throw std::runtime_error("first"); }); }, "first");
    int runs = 0;
    coir::call_once(flag, [&] { ++runs; });
    coir::call_once(flag, [&] { ++runs; });
    EXPECT_EQ(runs, 1);
  });
}

TEST_P(once_test, WhoWaitsForABodyThatThrowsTriesInItsPlace) {
  run([] {
    for (const kind k : both_kinds) {
      coir::once flag;
      std::atomic<bool> begun{false}, go_on{false};
      std::vector<int> tried;
      actor leader(kind::fiber, [&] {
        coir::call_once(flag, [&] {
          begun = true;
          until([&] { return go_on.load(); });
          throw std::runtime_error("leader");
        });
      });
      until([&] { return begun.load(); });
      std::vector<actor> others;
      for (int i = 0; i < 4; ++i) {
        others.emplace_back(k, [&, i] {
          coir::call_once(flag, [&] {
            tried.push_back(i);
            if (i < 2) throw std::runtime_error("again");
          });
        });
        others.back().until_blocked();
      }
      go_on = true;
      EXPECT_THROW(leader.join(), std::runtime_error);
      EXPECT_THROW(others[0].join(), std::runtime_error) << k;
      EXPECT_THROW(others[1].join(), std::runtime_error) << k;
      others[2].join();
      others[3].join();
      EXPECT_EQ(tried, (std::vector<int>{0, 1, 2}));
    }
  });
}

TEST_P(once_test, ACancelledWaiterThrowsAndTheRestGoOn) {
  run([] {
    coir::once flag;
    std::atomic<bool> begun{false}, go_on{false};
    actor leader(kind::thread, [&] {
      coir::call_once(flag, [&] {
        begun = true;
        until([&] { return go_on.load(); });
        throw std::runtime_error("leader");
      });
    });
    until([&] { return begun.load(); });
    actor victim(kind::fiber, [&] { coir::call_once(flag, [] { FAIL(); }); });
    victim.until_blocked();
    bool ran = false;
    actor heir(kind::fiber, [&] { coir::call_once(flag, [&] { ran = true; }); });
    heir.until_blocked();
    victim.cancel();
    EXPECT_THROW(victim.join(), coir::task_cancelled);
    go_on = true;
    EXPECT_THROW(leader.join(), std::runtime_error);
    heir.join();
    EXPECT_TRUE(ran);
  });
}

TEST_P(once_test, ManyAtOnceWithFailuresRunItOnceAndSeeWhatItWrote) {
  run([] {
    const int rounds = scaled(2'000);
    for (int r = 0; r < rounds; ++r) {
      auto flag = std::make_unique<coir::once>();
      int value = 0;  // plain: ThreadSanitizer watches
      std::atomic<int> failures{0};
      std::vector<actor> callers;
      for (int i = 0; i < 6; ++i) {
        callers.emplace_back(r % 32 == 0 ? kind::thread : kind::fiber, [&, i] {
          try {
            coir::call_once(*flag, [&] {
              if (i < 3) throw std::runtime_error("no");
              if (i == 4) coir_test::pause();
              ++value;
            });
            EXPECT_EQ(value, 1);
          } catch (const std::runtime_error&) {
            ++failures;
          }
        });
      }
      for (actor& c : callers) c.join();
      EXPECT_EQ(value, 1);
      EXPECT_LE(failures, 3);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, once_test, coir_test::processors, coir_test::processors_name);

}  // namespace
