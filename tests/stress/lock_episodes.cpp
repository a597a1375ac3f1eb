// What is changed under a lock is changed by one at a time.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <stop_token>

#include <coir/coir.hpp>

#include "episodes.hpp"

namespace stress {

void counters_under_locks(place& p) {
  struct {
    coir::mutex plain;
    coir::timed_mutex timed;
    coir::recursive_mutex recursive;
    coir::shared_mutex shared;
    int by_plain = 0, by_timed = 0, by_recursive = 0, by_shared = 0, twin = 0;  // each guarded by its lock
    std::atomic<int> plainly{0}, timely{0}, recursively{0}, exclusively{0};
  } w;
  crew all(p);
  for (std::uint64_t left = 2 + p.random.draw(6); left > 0; --left)
    all.start([&w](place& here) {
      for (std::uint64_t n = here.random.draw(40); n > 0; --n) switch (here.random.draw(7)) {
          case 0: {
            const std::scoped_lock held(w.plain);
            if (here.random.draw(8) == 0) dawdle(here.random);
            ++w.by_plain;
            ++w.plainly;
            break;
          }
          case 1: {
            std::unique_lock held(w.timed, std::defer_lock);
            while (!held.try_lock_for(here.random.draw_time(60))) {
            }
            if (here.random.draw(8) == 0) dawdle(here.random);
            ++w.by_timed;
            ++w.timely;
            break;
          }
          case 2: {
            const std::scoped_lock outer(w.recursive);
            const int before = w.by_recursive;
            if (here.random.draw(8) == 0) dawdle(here.random);
            const std::scoped_lock inner(w.recursive);
            EXPECT_EQ(before, w.by_recursive++);
            ++w.recursively;
            break;
          }
          case 3: {
            const std::unique_lock held(w.shared);
            const coir::uncancellable both_or_none;
            ++w.by_shared;
            if (here.random.draw(8) == 0) dawdle(here.random);
            ++w.twin;
            ++w.exclusively;
            break;
          }
          case 4: {
            const std::shared_lock held(w.shared);
            EXPECT_EQ(w.by_shared, w.twin);
            if (here.random.draw(8) == 0) dawdle(here.random);
            break;
          }
          case 5: {
            const std::shared_lock held(w.shared, here.random.draw_time(60));
            EXPECT_TRUE(!held || w.by_shared == w.twin);
            break;
          }
          case 6: {
            const std::scoped_lock held(w.timed, w.plain);
            ++w.by_plain;
            ++w.by_timed;
            ++w.plainly;
            ++w.timely;
            break;
          }
        }
    });
  all.end();
  EXPECT_EQ(w.by_plain, w.plainly);
  EXPECT_EQ(w.by_timed, w.timely);
  EXPECT_EQ(w.by_recursive, w.recursively);
  EXPECT_EQ(w.by_shared, w.exclusively);
  EXPECT_TRUE(w.plain.try_lock() && w.timed.try_lock() && w.recursive.try_lock() && w.shared.try_lock());
}

void bounded_queue(place& p) {
  struct {
    coir::mutex lock;
    coir::condition_variable not_empty, not_full;
    std::deque<int> items;  // guarded by the lock, as the next
    bool over = false;
    int producers = 0;
    std::atomic<int> in{0}, out{0};
    std::stop_source never;
  } w;
  constexpr std::size_t room = 3;
  w.producers = 1 + static_cast<int>(p.random.draw(3));
  crew all(p);
  for (int left = w.producers; left > 0; --left)
    all.start([&w](place& here) {
      for (std::uint64_t n = here.random.draw(30); n > 0; --n) {
        std::unique_lock held(w.lock);
        const auto has_room = [&w] { return w.items.size() < room; };
        if (here.random.draw(2) == 0)
          w.not_full.wait(held, has_room);
        else
          while (!w.not_full.wait_for(held, here.random.draw_time(60), has_room)) {
          }
        w.items.push_back(1);
        ++w.in;
        if (here.random.draw(2) == 0) held.unlock();
        w.not_empty.notify_one();
      }
      const coir::uncancellable the_end_is_told;
      const std::scoped_lock held(w.lock);
      w.over = --w.producers == 0;
      if (w.over) w.not_empty.notify_all();
    });
  for (std::uint64_t left = 1 + p.random.draw(3); left > 0; --left)
    all.start([&w](place& here) {
      for (;;) {
        std::unique_lock held(w.lock);
        const auto has_item = [&w] { return !w.items.empty() || w.over; };
        switch (here.random.draw(3)) {
          case 0:
            w.not_empty.wait(held, has_item);
            break;
          case 1:
            EXPECT_TRUE(w.not_empty.wait(held, w.never.get_token(), has_item));
            break;
          case 2:
            while (!w.not_empty.wait_for(held, here.random.draw_time(60), has_item)) {
            }
            break;
        }
        if (w.items.empty()) return;
        w.items.pop_front();
        ++w.out;
        w.not_full.notify_one();
      }
    });
  EXPECT_TRUE(!all.end() || w.in == w.out);
  EXPECT_EQ(w.in, w.out + static_cast<int>(w.items.size()));
}

void permits(place& p) {
  static constexpr int total = 4;
  struct {
    coir::semaphore permits{total};
    std::atomic<int> inside{0};
  } w;
  struct holds {
    coir::semaphore& permits;
    std::atomic<int>& inside;
    int n;
    holds(coir::semaphore& s, std::atomic<int>& i, int number) : permits(s), inside(i), n(number) {
      EXPECT_LE(inside += n, total);
    }
    ~holds() {
      inside -= n;
      permits.release(n);
    }
  };
  crew all(p);
  for (std::uint64_t left = 2 + p.random.draw(6); left > 0; --left)
    all.start([&w](place& here) {
      for (std::uint64_t left_over = here.random.draw(30); left_over > 0; --left_over) {
        const int n = 1 + static_cast<int>(here.random.draw(total));
        if (here.random.draw(3) == 0) {
          while (!w.permits.acquire_for(n, here.random.draw_time(60))) {
          }
        } else if (here.random.draw(3) != 0 || !w.permits.try_acquire(n)) {
          w.permits.acquire(n);
        }
        const holds some(w.permits, w.inside, n);
        if (here.random.draw(8) == 0) dawdle(here.random);
      }
    });
  all.end();
  EXPECT_EQ(w.inside, 0);
  EXPECT_TRUE(w.permits.try_acquire(total));
}

}  // namespace stress
