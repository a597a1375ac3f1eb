// What one fiber does by itself, while the others go on around it.
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>

#include <coir/coir.hpp>

#include "episodes.hpp"

namespace stress {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

coir::fiber_local<std::uint64_t> whose;

void compute(std::chrono::microseconds d) {
  const auto end = clock::now() + d;
  while (clock::now() < end) {
  }
}

}  // namespace

void dawdle(choices& random) {
  switch (random.draw(12)) {
    case 0:
      coir::sleep_for(random.draw_time(60));
      return;
    case 1:
      compute(random.draw_time(20));
      return;
    case 2:
      coir::blocking([&] { std::this_thread::sleep_for(random.draw_time(60)); });
      return;
    case 3:
      std::this_thread::sleep_for(random.draw_time(60));  // holds the processor, until it is retaken
      return;
    case 4:
    case 5:
      return;
    default:
      if (coir::this_fiber::is_fiber())
        coir::yield();
      else
        std::this_thread::yield();
  }
}

// A body with a stack of its own that blocks as its consumer would; left in the middle, or read to the end.
void generators(place& p) {
  const std::uint64_t n = p.random.draw(20);
  place inner{p.random.split(), p.depth + 1, p.whole};
  {
    coir::generator<std::uint64_t> values([n, &inner](auto& yield) {
      const counted local;
      for (std::uint64_t i = 0; i < n; ++i) {
        if (inner.random.draw(4) == 0) dawdle(inner.random);
        if (inner.random.draw(40) == 0) play(inner);
        yield(i);
      }
    });
    std::uint64_t expected = 0;
    const std::uint64_t wanted = p.random.draw(2) == 0 ? n + 1 : p.random.draw(n + 1);
    while (expected < wanted) {
      const auto value = values.next();
      if (!value) break;
      EXPECT_EQ(*value, expected++);
    }
    EXPECT_EQ(expected, wanted < n ? wanted : n);
  }
}

void locals(place& p) {
  const std::uint64_t before = *whose;
  *whose = p.random.state();
  const std::uint64_t mine = *whose;
  place inner{p.random.split(), p.depth + 1, p.whole};
  const struct restores {
    std::uint64_t before;
    ~restores() { *whose = before; }
  } at_end{before};
  crew all(p);
  for (std::uint64_t left = p.random.draw(4); left > 0; --left)
    all.start([](place& here) {
      EXPECT_EQ(*whose, 0U);
      const std::uint64_t own = *whose = here.random.state() | 1;
      for (int i = 0; i < 3; ++i) {
        dawdle(here.random);
        EXPECT_EQ(*whose, own);
      }
      *whose = 0;
    });
  play(inner);
  EXPECT_EQ(*whose, mine);
  all.end();
  EXPECT_EQ(*whose, mine);
}

// Those who hold their processor: computing, in the kernel, at a lock of the operating system.
void hostage(place& p) {
  struct {
    std::mutex lock;
    int guarded = 0, expected = 0;
  } w;
  crew all(p);
  for (std::uint64_t left = 1 + p.random.draw(4); left > 0; --left) {
    const int turns = static_cast<int>(p.random.draw(4));
    w.expected += turns;
    all.start([&w, turns](place& here) {
      for (int n = turns; n > 0; --n) {
        {
          const std::scoped_lock held(w.lock);  // no other may be blocked on in here
          ++w.guarded;
          if (here.random.draw(2) == 0)
            compute(here.random.draw_time(400));
          else
            std::this_thread::sleep_for(here.random.draw_time(400));
        }
        coir::blocking([&] { std::this_thread::sleep_for(here.random.draw_time(200)); });
      }
    });
  }
  EXPECT_TRUE(!all.end() || w.guarded == w.expected);
}

}  // namespace stress
