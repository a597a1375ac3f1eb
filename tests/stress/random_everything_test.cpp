// Random programs of every primitive, played side by side on few and on many processors, with some of the players
// cancelled in the middle.
//
// What must hold, besides the books of each episode (episodes.hpp): every program ends, and leaves nothing behind.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include <coir/coir.hpp>

#include "coir_test.hpp"
#include "episodes.hpp"
#include "seeded.hpp"

namespace stress {
namespace {

constexpr std::array episodes = {&pipeline,
                                 &crossed_selects,
                                 &coroutine_pipeline,
                                 &ticks,
                                 &counters_under_locks,
                                 &bounded_queue,
                                 &permits,
                                 &phases,
                                 &only_once,
                                 &wait_groups,
                                 &one_flight,
                                 &failing_group,
                                 &nested_timeouts,
                                 &contexts,
                                 &stopped_tasks,
                                 &generators,
                                 &locals,
                                 &hostage};
constexpr int deepest = 3;

std::atomic<int> may_be_played{0};

}  // namespace

void play(place& p) {
  if (p.depth > deepest || !coir::this_fiber::is_fiber() || may_be_played.fetch_sub(1) <= 0) return dawdle(p.random);
  episodes[p.random.draw(episodes.size())](p);
}

namespace {

void lead(choices random) {
  const counted local;
  for (int i = 0; i < 3; ++i) {
    place p{random.split(), 0, random.chance(60)};
    if (p.whole) {
      const coir::uncancellable to_the_end;
      play(p);
    } else {
      play(p);
    }
  }
}

void run_program(unsigned processors, std::uint64_t seed) {
  choices random(seed);
  may_be_played = coir_test::scaled(400);
  coir::options o;
  o.processors = processors;
  coir::run(o, [&] {
    std::vector<coir::task<void>> leaders;
    for (std::uint64_t n = 2 + random.draw(8); n > 0; --n)
      leaders.push_back(coir::spawn([c = random.split()] { lead(c); }));
    if (random.chance(30)) {
      dawdle(random);
      for (auto& t : leaders)
        if (random.chance(50)) t.request_stop();
    }
    if (random.chance(10)) coir::runtime::current().cancel();
    const coir::uncancellable to_the_end;
    for (auto& t : leaders) {
      try {
        t.get();
      } catch (const coir::task_cancelled&) {
      }
    }
  });
  EXPECT_EQ(counted::live(), 0);
}

class RandomEverything : public testing::TestWithParam<unsigned> {};

TEST_P(RandomEverything, BalancesItsBooksAndEnds) { run_seeds(GetParam(), &run_program); }

INSTANTIATE_TEST_SUITE_P(Processors, RandomEverything, few_and_many, coir_test::processors_name);

}  // namespace
}  // namespace stress
