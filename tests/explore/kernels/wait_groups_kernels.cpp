// Wait groups, latches and barriers: counted in the wrong place, too often, or not at all.
#include <atomic>
#include <mutex>

#include "kernels.hpp"

namespace kernels {

namespace {

/// The child counts itself. The wait may come before.
template <bool mended>
void add_in_the_child() {
  coir::wait_group group;
  std::atomic<bool> done = false;
  if (mended) group.add();
  auto child = coir::spawn([&] {
    if (!mended) group.add();
    done = true;
    group.done();
  });
  coir::yield();
  group.wait();
  const bool was_done = done;
  child.get();
  require(was_done, "the wait has not waited");
}

/// The child is done before its last write.
template <bool mended>
void done_before_the_end() {
  coir::wait_group group;
  coir::mutex lock;
  int result = 0;
  group.add();
  auto child = coir::spawn([&] {
    if (!mended) group.done();
    {
      const std::scoped_lock held(lock);
      result = 42;
    }
    if (mended) group.done();
  });
  group.wait();
  int seen = 0;
  {
    const std::scoped_lock held(lock);
    seen = result;
  }
  child.get();
  require(seen == 42, "the result is not there yet");
}

/// A worker that is stopped says done() on its way out, and once more at its end.
template <bool mended>
void done_twice() {
  coir::wait_group group;
  std::atomic<bool> stopped = false;
  const auto work = [&] {
    decision();
    if (stopped) {
      group.done();
      if (mended) return;
    }
    group.done();
  };
  group.add(2);
  auto one = coir::spawn(work);
  auto other = coir::spawn(work);
  one.wait();
  stopped = true;
  group.wait();
  one.get();
  other.get();
}

/// A worker that finds nothing to do returns without done().
template <bool mended>
void done_forgotten() {
  coir::wait_group group;
  coir::mutex lock;
  int jobs = 1;
  group.add(2);
  const auto work = [&] {
    const std::scoped_lock held(lock);
    if (jobs == 0) {
      if (mended) group.done();
      return;
    }
    --jobs;
    group.done();
  };
  auto one = coir::spawn(work);
  auto other = coir::spawn(work);
  {
    const std::scoped_lock held(lock);
    ++jobs;
  }
  group.wait();
  one.get();
  other.get();
}

/// A retry counts the latch down once more, so that it opens before the other worker is ready.
template <bool mended>
void latch_opens_early() {
  coir::latch ready(2);
  coir::semaphore connection(1);
  std::atomic<int> connected = 0;
  const auto connect = [&] {
    while (!connection.try_acquire()) {
      if (!mended) ready.count_down();
      connection.acquire();
      connection.release();
    }
    ++connected;
    connection.release();
    ready.count_down();
  };
  auto one = coir::spawn(connect);
  auto other = coir::spawn(connect);
  ready.wait();
  const int seen = connected;
  one.get();
  other.get();
  require(seen == 2, "the latch has opened early");
}

/// A participant of a barrier leaves, and the others wait for it.
template <bool mended>
void barrier_left() {
  coir::barrier round(2);
  coir::mutex lock;
  bool stopping = false;
  const auto work = [&] {
    for (int i = 0; i < 2; ++i) {
      {
        const std::scoped_lock held(lock);
        if (stopping) {
          if (mended) round.arrive_and_drop();
          return;
        }
      }
      round.arrive_and_wait();
    }
  };
  auto one = coir::spawn(work);
  auto other = coir::spawn(work);
  {
    const std::scoped_lock held(lock);
    stopping = true;
  }
  one.get();
  other.get();
}

/// The next round begins before all have read the result of the last: one barrier where two are needed.
template <bool mended>
void barrier_missing() {
  coir::barrier round(2);
  coir::mutex lock;
  int sum = 0;
  bool wrong = false;
  const auto work = [&](bool resets) {
    {
      const std::scoped_lock held(lock);
      ++sum;
    }
    round.arrive_and_wait();
    {
      const std::scoped_lock held(lock);
      wrong |= sum != 2;
    }
    if (mended) round.arrive_and_wait();
    const std::scoped_lock held(lock);
    if (resets) sum = 0;
  };
  auto other = coir::spawn([&] { work(false); });
  work(true);
  other.get();
  require(!wrong, "the sum was reset too early");
}

constexpr kernel all[] = {
    {"add_in_the_child", "The child calls add(); the wait may come before", effect::exception, add_in_the_child<false>,
     add_in_the_child<true>},
    {"done_before_the_end", "done() is called before the last write", effect::exception,  //
     done_before_the_end<false>, done_before_the_end<true>},
    {"done_twice", "done() is called twice by a worker that is stopped", effect::exception,  //
     done_twice<false>, done_twice<true>},
    {"done_forgotten", "A worker without work returns without done()", effect::deadlock,  //
     done_forgotten<false>, done_forgotten<true>},
    {"latch_opens_early", "A retry counts a latch down once more", effect::exception,  //
     latch_opens_early<false>, latch_opens_early<true>},
    {"barrier_left", "A participant leaves a barrier without saying so", effect::deadlock,  //
     barrier_left<false>, barrier_left<true>},
    {"barrier_missing", "The next phase begins before all have read the last", effect::exception,
     barrier_missing<false>, barrier_missing<true>},
};

}  // namespace

std::span<const kernel> wait_groups() { return all; }

}  // namespace kernels
