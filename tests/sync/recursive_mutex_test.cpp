// coir::recursive_mutex: ownership belongs to a fiber or thread, and nests.
#include <coir/recursive_mutex.hpp>

#include <mutex>
#include <vector>

#include "actor.hpp"

namespace {

using sync_test::actor;
using sync_test::both_kinds;
using sync_test::kind;

class recursive_mutex_test : public coir_test::with_processors {};

TEST_P(recursive_mutex_test, ItsOwnerLocksAgainAndOthersWaitForTheLastUnlock) {
  run([] {
    for (const kind k : both_kinds) {
      coir::recursive_mutex m;
      m.lock();
      m.lock();
      EXPECT_TRUE(m.try_lock());
      bool entered = false;
      actor other(k, [&] {
        EXPECT_FALSE(m.try_lock()) << k;
        const std::scoped_lock lock(m);
        entered = true;
      });
      other.until_blocked();
      m.unlock();
      m.unlock();
      EXPECT_FALSE(entered);
      actor(k, [&] { EXPECT_FALSE(m.try_lock()) << k; }).join();
      m.unlock();
      other.join();
      EXPECT_TRUE(entered);
    }
  });
}

TEST_P(recursive_mutex_test, OwnershipStaysWithAFiberThatMigrates) {
  run([] {
    coir::recursive_mutex m;
    std::vector<actor> actors;
    long sum = 0;
    for (int i = 0; i < 4; ++i) {
      actors.emplace_back(kind::fiber, [&] {
        for (int r = 0; r < coir_test::scaled(2'000); ++r) {
          const std::scoped_lock outer(m);
          coir::yield();
          const std::scoped_lock inner(m);
          ++sum;
        }
      });
    }
    for (actor& a : actors) a.join();
    EXPECT_EQ(sum, 4L * coir_test::scaled(2'000));
  });
}

TEST_P(recursive_mutex_test, UnlockByAnybodyElseIsANamedError) {
  run([] {
    for (const kind k : both_kinds) {
      coir::recursive_mutex m;
      EXPECT_THROW(m.unlock(), std::logic_error);
      m.lock();
      actor(k, [&] { coir_test::expect_throw_message<std::logic_error>([&] { m.unlock(); }, "does not own"); }).join();
      m.unlock();
      EXPECT_THROW(m.unlock(), std::logic_error);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, recursive_mutex_test, coir_test::processors, coir_test::processors_name);

}  // namespace
