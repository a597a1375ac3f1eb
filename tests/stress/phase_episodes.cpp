// All wait for all, or for one.
#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include <coir/coir.hpp>

#include "episodes.hpp"

namespace stress {

// Nobody is in a phase before all have ended the one before.
void phases(place& p) {
  const int players = 2 + static_cast<int>(p.random.draw(5));
  const int rounds = 1 + static_cast<int>(p.random.draw(8));
  struct world {
    std::vector<std::atomic<int>> arrived;
    std::atomic<int> completed{0};
    coir::latch all_started, all_ended;
    world(int n, int r) : arrived(static_cast<std::size_t>(r)), all_started(n), all_ended(n) {}
  } w(players, rounds);
  const auto completion = [&w]() noexcept { ++w.completed; };
  coir::barrier<decltype(completion)> meet(players, completion);
  const bool one_leaves = p.random.draw(2) == 0;
  crew all(p);
  for (int i = 0; i < players; ++i)
    all.start([&, i](place& here) {
      w.all_started.arrive_and_wait();
      int expected = players;
      for (int r = 0; r < rounds; ++r) {
        EXPECT_EQ(w.completed, r);
        ++w.arrived[static_cast<std::size_t>(r)];
        if (here.random.draw(4) == 0) dawdle(here.random);
        if (one_leaves && i == 0 && r == rounds / 2) {
          meet.arrive_and_drop();
          break;
        }
        if (here.random.draw(2) == 0)
          meet.arrive_and_wait();
        else
          meet.wait(meet.arrive());
        EXPECT_EQ(w.arrived[static_cast<std::size_t>(r)], expected);
        if (one_leaves && r == rounds / 2) --expected;
      }
      w.all_ended.count_down();
    });
  if (p.random.draw(2) == 0 && p.whole) w.all_ended.wait();
  if (all.end()) {
    EXPECT_TRUE(w.all_started.try_wait() && w.all_ended.try_wait());
    EXPECT_EQ(w.completed, rounds);
  }
}

void only_once(place& p) {
  struct failure : std::runtime_error {
    failure() : std::runtime_error("planned") {}
    counted c;
  };
  struct {
    coir::once flag;
    std::atomic<int> tries{0}, inside{0}, successes{0};
  } w;
  const int failures = static_cast<int>(p.random.draw(3));
  const int players = failures + 1 + static_cast<int>(p.random.draw(5));
  crew all(p);
  for (int i = 0; i < players; ++i)
    all.start([&w, failures](place& here) {
      if (here.random.draw(2) == 0) dawdle(here.random);
      try {
        coir::call_once(w.flag, [&] {
          EXPECT_EQ(++w.inside, 1);
          const coir::uncancellable to_the_end;
          dawdle(here.random);
          --w.inside;
          if (w.tries++ < failures) throw failure();
          ++w.successes;
        });
        EXPECT_EQ(w.successes, 1);
      } catch (const failure&) {
      }
    });
  EXPECT_TRUE(!all.end() || w.successes == 1);
}

void wait_groups(place& p) {
  const auto ended = std::make_shared<std::atomic<int>>(0);
  int rounds = 1 + static_cast<int>(p.random.draw(4));
  const coir::uncancellable nobody_is_left_behind;  // those who count hold references here
  coir::wait_group group;
  crew all(p);
  for (int expected = 0; rounds > 0; --rounds) {
    const int n = static_cast<int>(p.random.draw(6));
    expected += n;
    group.add(n / 2);
    for (int i = 0; i < n / 2; ++i)
      all.start([&group, ended](place& here) {
        try {
          dawdle(here.random);
        } catch (const coir::cancelled&) {
        }
        ++*ended;
        group.done();
      });
    for (int i = n / 2; i < n; ++i)
      group.go([ended, c = p.random.split()]() mutable {
        try {
          dawdle(c);
        } catch (const coir::cancelled&) {
        }
        ++*ended;
      });
    group.wait();
    EXPECT_EQ(*ended, expected);
  }
  all.end();
}

void one_flight(place& p) {
  struct {
    coir::single_flight<int, int> flights;
    std::atomic<int> flying[3]{};
  } w;
  crew all(p);
  for (std::uint64_t left = 2 + p.random.draw(5); left > 0; --left)
    all.start([&w](place& here) {
      for (std::uint64_t n = here.random.draw(12); n > 0; --n) {
        const auto key = static_cast<int>(here.random.draw(3));
        const int value = w.flights.run(key, [&] {
          struct lands {
            std::atomic<int>& flying;
            ~lands() { --flying; }
          };
          EXPECT_EQ(++w.flying[key], 1);
          const lands at_end{w.flying[key]};
          dawdle(here.random);
          return key * 7;
        });
        EXPECT_EQ(value, key * 7);
      }
    });
  all.end();
}

}  // namespace stress
