// coir::shared_mutex: readers together, a writer alone, fair both ways.
#include <coir/shared_mutex.hpp>

#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "actor.hpp"

namespace {

using coir_test::scaled;
using coir_test::until;
using sync_test::actor;
using sync_test::both_kinds;
using sync_test::kind;
using namespace std::chrono_literals;

class shared_mutex_test : public coir_test::with_processors {};

TEST_P(shared_mutex_test, ReadersAreInsideTogether) {
  run([] {
    for (const kind k : both_kinds) {
      coir::shared_mutex m;
      std::atomic<int> inside{0};
      std::vector<actor> readers;
      for (int i = 0; i < 3; ++i) {
        readers.emplace_back(k, [&] {
          const std::shared_lock lock(m);
          ++inside;
          until([&] { return inside == 3; });
        });
      }
      for (actor& r : readers) r.join();
      EXPECT_TRUE(m.try_lock()) << k;
      m.unlock();
    }
  });
}

TEST_P(shared_mutex_test, AWriterIsAlone) {
  run([] {
    coir::shared_mutex m;
    const int rounds = scaled(5'000);
    long value = 0;  // plain: ThreadSanitizer watches
    std::atomic<int> readers{0};
    std::vector<actor> actors;
    for (int i = 0; i < 8; ++i) {
      actors.emplace_back(i < 6 ? kind::fiber : kind::thread, [&, writes = i % 2 == 0] {
        for (int r = 0; r < rounds; ++r) {
          if (writes) {
            const std::unique_lock lock(m);
            EXPECT_EQ(readers.load(), 0);
            ++value;
          } else {
            const std::shared_lock lock(m);
            ++readers;
            EXPECT_GE(value, 0);
            --readers;
          }
        }
      });
    }
    for (actor& a : actors) a.join();
    EXPECT_EQ(value, 4L * rounds);
  });
}

TEST_P(shared_mutex_test, AWaitingWriterHoldsOffNewReadersAndAllAreServedInOrder) {
  run([] {
    for (const kind k : both_kinds) {
      coir::shared_mutex m;
      std::string order;  // of those who entered; only the two neighbouring readers may be inside together
      coir::shared_mutex order_lock;
      const auto note = [&](char c) {
        const std::unique_lock lock(order_lock);
        order += c;
      };
      m.lock_shared();
      std::vector<actor> actors;
      const auto add = [&](char c, bool writer) {
        actors.emplace_back(k, [&, c, writer] {
          if (writer) {
            const std::unique_lock lock(m);
            note(c);
          } else {
            const std::shared_lock lock(m);
            note(c);
          }
        });
        actors.back().until_blocked();
      };
      add('W', true);
      EXPECT_FALSE(m.try_lock_shared()) << "a new reader passes a waiting writer";
      add('r', false);
      add('r', false);
      add('X', true);
      add('s', false);
      m.unlock_shared();
      for (actor& a : actors) a.join();
      EXPECT_EQ(order, "WrrXs") << k;
    }
  });
}

TEST_P(shared_mutex_test, AWriterThatGivesUpLetsTheReadersBehindItThrough) {
  run([] {
    coir::shared_mutex m;
    m.lock_shared();
    actor late_writer(kind::thread, [&] { EXPECT_FALSE(m.try_lock_for(5ms)); });
    late_writer.until_blocked();
    actor reader(kind::fiber, [&] {
      m.lock_shared();
      m.unlock_shared();
    });
    late_writer.join();
    reader.join();
    m.unlock_shared();
    EXPECT_TRUE(m.try_lock());
    m.unlock();
  });
}

TEST_P(shared_mutex_test, BlockedLocksAreNotInterrupted) {
  run([] {
    coir::shared_mutex m;
    m.lock();
    coir::task<void> reader = coir::spawn([&] {
      m.lock_shared();
      m.unlock_shared();
      EXPECT_TRUE(m.try_lock_shared_for(10h));
      m.unlock_shared();
    });
    coir_test::until_blocked(reader);
    coir::task<void> writer = coir::spawn([&] {
      m.lock();
      m.unlock();
      EXPECT_TRUE(m.try_lock_for(10h));
      m.unlock();
    });
    coir_test::until_blocked(writer);
    reader.request_stop();
    writer.request_stop();
    for (int i = 0; i < 10; ++i) coir::yield();
    EXPECT_EQ(reader.status(), coir::task_status::blocked);
    EXPECT_EQ(writer.status(), coir::task_status::blocked);
    m.unlock();
    reader.get();
    writer.get();
    EXPECT_TRUE(m.try_lock());
    m.unlock();
  });
}

/// One of four does the one, the others the other; the one is a fiber or a thread.
void nobody_starves(bool many_write, kind the_one) {
  coir::shared_mutex m;
  std::atomic<bool> stop{false};
  std::atomic<long> turns[4] = {};
  std::vector<actor> actors;
  for (int i = 0; i < 4; ++i) {
    actors.emplace_back(i == 0 ? the_one : kind::fiber, [&, i, writes = (i == 0) != many_write] {
      while (!stop) {
        if (writes) {
          const std::unique_lock lock(m);
          ++turns[i];
          coir_test::pause();
        } else {
          const std::shared_lock lock(m);
          ++turns[i];
          coir_test::pause();
        }
      }
    });
  }
  until([&] {
    for (const auto& t : turns)
      if (t < 50) return false;
    return true;
  });
  stop = true;
  for (actor& a : actors) a.join();
}

TEST_P(shared_mutex_test, NeitherReadersNorWritersStarve) {
  run([] {
    for (const kind the_one : both_kinds) {
      nobody_starves(false, the_one);
      nobody_starves(true, the_one);
    }
  });
}

TEST_P(shared_mutex_test, UnlockOfWhatIsNotHeldIsANamedError) {
  run([] {
    coir::shared_mutex m;
    EXPECT_THROW(m.unlock(), std::logic_error);
    EXPECT_THROW(m.unlock_shared(), std::logic_error);
    m.lock();
    coir_test::expect_throw_message<std::logic_error>([&] { m.unlock_shared(); }, "no reader holds");
    m.unlock();
    m.lock_shared();
    coir_test::expect_throw_message<std::logic_error>([&] { m.unlock(); }, "not exclusively locked");
    m.unlock_shared();
    EXPECT_TRUE(m.try_lock());
    m.unlock();
  });
}

TEST_P(shared_mutex_test, TimedLocksGiveUp) {
  run([] {
    coir::shared_mutex m;
    m.lock();
    for (const kind k : both_kinds) {
      actor(k, [&] {
        EXPECT_FALSE(m.try_lock_for(1ms)) << k;
        EXPECT_FALSE(m.try_lock_shared_for(1ms)) << k;
        EXPECT_FALSE(m.try_lock_shared_until(std::chrono::steady_clock::now())) << k;
        const std::shared_lock lock(m, 1ms);
        EXPECT_FALSE(lock.owns_lock());
      }).join();
    }
    m.unlock();
    EXPECT_TRUE(m.try_lock_shared_for(0ms));
    m.unlock_shared();
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, shared_mutex_test, coir_test::processors, coir_test::processors_name);

}  // namespace
