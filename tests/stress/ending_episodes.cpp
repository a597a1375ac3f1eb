// What ends fibers: failures, deadlines, requests. All that was begun has ended when its scope is left.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>

#include <coir/coir.hpp>

#include "episodes.hpp"

namespace stress {
namespace {

using clock = std::chrono::steady_clock;

struct planned_failure : std::runtime_error {
  planned_failure() : std::runtime_error("planned") {}
  counted c;
};

struct counts {
  std::atomic<int>& n;
  explicit counts(std::atomic<int>& of) : n(of) { ++n; }
  ~counts() { --n; }
};

}  // namespace

void failing_group(place& p) {
  std::atomic<int> inside{0};
  const bool fails = p.random.draw(2) == 0;
  bool failed = false;
  try {
    coir::task_group group;
    const bool limited = p.random.draw(2) == 0;
    if (limited) group.set_limit(1 + p.random.draw(3));
    const std::uint64_t children = 1 + p.random.draw(5);
    for (std::uint64_t i = 0; i < children; ++i)
      group.spawn([&inside, last = i + 1 == children, fails, limited,
                   here = place{p.random.split(), p.depth + 1, false}]() mutable {
        const counts me(inside);
        if (fails && last) throw planned_failure();
        if (fails && !limited && here.random.draw(3) == 0)
          coir::make_chan<void>().recv();  // nobody sends: the failure ends it
        play(here);
      });
    group.wait();
  } catch (const planned_failure&) {
    failed = true;
  }
  EXPECT_EQ(inside, 0);
  EXPECT_EQ(failed, fails);
}

void nested_timeouts(place& p) {
  if (p.whole) {  // the caller is uncancellable: that would defer it for ever
    place inner{p.random.split(), p.depth, false};
    coir::spawn([&inner] { nested_timeouts(inner); }).wait();
    return;
  }
  place inner{p.random.split(), p.depth + 1, false};
  const auto d = p.random.draw_time(400);
  const auto begin = clock::now();
  try {
    coir::timeout(d, [&inner] {
      play(inner);
      if (inner.random.draw(3) == 0) coir::make_chan<void>().recv();
    });
  } catch (const coir::timed_out&) {
    EXPECT_GE(clock::now() - begin, d);
  }
}

void contexts(place& p) {
  const auto d = p.random.draw_time(400);
  const auto begin = clock::now();
  auto [root, cancel] = p.random.draw(2) == 0 ? coir::with_timeout(coir::context::background(), d)
                                              : coir::with_cancel(coir::context::background());
  const bool by_time = root.deadline().has_value();
  const struct ends {
    coir::cancel_function end;
    ~ends() { end(); }
  } at_end{cancel};
  crew all(p);
  for (std::uint64_t left = 1 + p.random.draw(4); left > 0; --left)
    all.start([ctx = root](place& here) {
      const auto marked = coir::with_value(ctx, 1, here.random.state());
      const auto [mine, stop] = coir::with_cancel(marked);
      if (here.random.draw(3) == 0) stop();
      mine.done().recv();
      EXPECT_NE(mine.err(), nullptr);
      const auto* const found = mine.value<std::uint64_t>(1);
      EXPECT_TRUE(found != nullptr);
      stop();
    });
  dawdle(p.random);
  if (!by_time) cancel();
  root.done().recv();
  EXPECT_TRUE(!by_time || clock::now() - begin >= d);
  all.end();
}

// Tasks that are stopped, dropped, detached or joined while they play.
void stopped_tasks(place& p) {
  std::atomic<int> inside{0};
  for (std::uint64_t n = 1 + p.random.draw(3); n > 0; --n) {
    coir::task<std::uint64_t> t =
        coir::spawn([&inside, n, here = place{p.random.split(), p.depth + 1, false}]() mutable {
          const counts me(inside);
          play(here);
          if (here.random.draw(4) == 0) coir::make_chan<void>().recv();
          return n;
        });
    dawdle(p.random);
    if (p.random.draw(3) == 0) static_cast<void>(t.wait_for(p.random.draw_time()));
    t.request_stop();
    if (p.random.draw(3) == 0) continue;  // its destructor joins
    try {
      EXPECT_EQ(t.get(), n);
    } catch (const coir::task_cancelled&) {
    }
  }
  EXPECT_EQ(inside, 0);
}

}  // namespace stress
