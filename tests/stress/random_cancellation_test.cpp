// Random programs of everything that ends fibers: nested timeouts, task groups that fail, contexts with deadlines, stop
// requests from outside, uncancellable sections; over channels, locks and sleeps to be ended in.
//
// What must hold: every fiber ends, and no child after its group; `cancelled` is thrown only where there is a reason
// (an open timeout or the fiber's own cancellation), `timed_out` leaves the timeout that was over; what a context's
// parent knows the context knows; a fiber's fiber_local stays its own; nothing is left behind; and run() returns.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

#include <coir/coir.hpp>

#include "../runtime/counted.hpp"
#include "coir_test.hpp"
#include "seeded.hpp"

namespace {

using runtime_test::counted;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using stress::mixed;

struct planned_failure : std::runtime_error {
  planned_failure() : std::runtime_error("planned") {}
  counted c;
};

struct arena {
  std::atomic<int> may_start{0};
  std::atomic<int> running{0};
  coir::chan<int> values = coir::make_chan<int>(2);
  coir::mutex lock;
  coir::semaphore permits{3};
  std::atomic<int> inside{0};  // of those who hold a permit
  coir::fiber_local<std::uint64_t> whose;
};

class actor {
 public:
  actor(arena& a, std::uint64_t seed, coir::context ctx) : arena_(a), state_(seed | 1), ctx_(std::move(ctx)) {}

  void operator()() {
    const struct counts {
      std::atomic<int>& n;
      explicit counts(std::atomic<int>& c) : n(c) { ++n; }
      ~counts() { --n; }
    } here(arena_.running);
    const counted local;
    const std::uint64_t me = state_;
    *arena_.whose = me;
    for (std::uint64_t steps = draw(6) + 1; steps > 0; --steps) {
      guarded_step(0);
      EXPECT_EQ(*arena_.whose, me);
    }
  }

 private:
  std::uint64_t draw(std::uint64_t below) { return (state_ = mixed(state_)) % below; }
  std::chrono::microseconds draw_time() { return std::chrono::microseconds(draw(150)); }
  bool may_start_another() { return arena_.may_start.fetch_sub(1) > 0; }
  actor child(coir::context ctx) { return actor(arena_, mixed(state_ ^ 5), std::move(ctx)); }

  /// A step that throws `cancelled` must have had a reason to.
  void guarded_step(int depth) {
    try {
      step(depth);
    } catch (const coir::cancelled&) {
      EXPECT_TRUE(open_timeouts_ > 0 || coir::detail::cancelled_for_good(coir::detail::this_waiter()));
      throw;
    }
  }

  void step(int depth) {
    switch (draw(depth < 4 ? 13 : 7)) {
      case 0:
        coir::sleep_for(draw_time());
        break;
      case 1:
        coir::yield();
        break;
      case 2: {
        int v = 0;
        coir::select(coir::on_send(arena_.values, 1), coir::on_recv(arena_.values), coir::on_recv(ctx_.done()),
                     coir::on_timeout(draw_time()));
        static_cast<void>(arena_.values.recv_for(v, draw_time()));
        break;
      }
      case 3: {
        const std::scoped_lock held(arena_.lock);
        if (draw(4) == 0) coir::yield();
        break;
      }
      case 4: {
        arena_.permits.acquire();
        EXPECT_LE(++arena_.inside, 3);
        coir::yield();
        --arena_.inside;
        arena_.permits.release();
        break;
      }
      case 5: {
        const coir::uncancellable guard;
        coir::sleep_for(draw_time() / 4);
        break;
      }
      case 6:
        ctx_.done().recv();
        EXPECT_NE(ctx_.err(), nullptr);
        break;
      case 7:
      case 8:
      case 9:
        timed(depth);
        break;
      case 10:
        group(depth);
        break;
      case 11:
        below(depth);
        break;
      case 12:
        stopped();
        break;
    }
  }

  void timed(int depth) {
    const auto d = draw_time() - 10us;
    const auto begin = clock::now();
    ++open_timeouts_;
    try {
      coir::timeout(d, [&] {
        for (std::uint64_t n = draw(3); n > 0; --n) guarded_step(depth + 1);
        if (draw(4) == 0) coir::make_chan<void>().recv();
      });
      --open_timeouts_;
    } catch (const coir::timed_out&) {
      EXPECT_GE(clock::now() - begin, d);
      --open_timeouts_;
    } catch (...) {
      --open_timeouts_;
      throw;
    }
  }

  void group(int depth) {
    std::atomic<int> inside{0};
    try {
      coir::task_group g;
      if (draw(2) == 0) g.set_limit(draw(3) + 1);
      for (std::uint64_t n = draw(5); n > 0 && may_start_another(); --n)
        g.spawn([a = child(ctx_), &inside, fails = draw(8) == 0, c = counted()]() mutable {
          ++inside;
          try {
            a();
          } catch (...) {
            --inside;
            throw;
          }
          --inside;
          if (fails) throw planned_failure();
        });
      if (draw(2) == 0) guarded_step(depth + 1);
      if (draw(3) != 0) g.wait();
    } catch (const planned_failure&) {
    } catch (...) {
      EXPECT_EQ(inside, 0);
      throw;
    }
    EXPECT_EQ(inside, 0);
  }

  /// A context below, with somebody who waits for it.
  void below(int depth) {
    auto [made, cancel] =
        draw(2) == 0 ? coir::with_timeout(coir::with_value(ctx_, 1, counted()), draw_time()) : coir::with_cancel(ctx_);
    const coir::context outer = std::exchange(ctx_, made);
    const struct restore {
      coir::context& place;
      const coir::context& before;
      coir::cancel_function end;
      ~restore() {
        end();
        place = before;
      }
    } restores{ctx_, outer, cancel};
    coir::task<void> watcher;
    if (may_start_another()) watcher = coir::spawn([done = made.done()] { done.recv(); });
    guarded_step(depth + 1);
    if (draw(2) == 0) cancel();
    if (outer.err() != nullptr) {
      made.done().recv();
      EXPECT_NE(made.err(), nullptr);
    }
  }

  void stopped() {
    if (!may_start_another()) return;
    coir::task<void> t = coir::spawn(child(ctx_));
    if (draw(2) == 0) static_cast<void>(t.wait_for(draw_time()));
    t.request_stop();
    if (draw(2) == 0) t.wait();
  }

  arena& arena_;
  std::uint64_t state_;
  coir::context ctx_;
  int open_timeouts_ = 0;
};

void run_program(unsigned processors, std::uint64_t seed) {
  {
    arena a;
    a.may_start = coir_test::thread_sanitizer ? 60 : 300;
    coir::options o;
    o.processors = processors;
    coir::run(o, [&] {
      auto [root, cancel] = coir::with_timeout(coir::context::background(), 5ms);
      std::vector<coir::task<void>> tasks;
      for (std::uint64_t i = 0; i < 8; ++i) tasks.push_back(coir::spawn(actor(a, mixed(seed + i), root)));
      for (std::size_t i = 0; i < tasks.size(); ++i) {
        if (i % 3 == 0 && !tasks[i].wait_for(std::chrono::microseconds(mixed(seed ^ i) % 3000)))
          tasks[i].request_stop();
        try {
          tasks[i].get();
        } catch (const coir::task_cancelled&) {
        }
      }
    });
    EXPECT_EQ(a.running, 0);
    EXPECT_EQ(a.inside, 0);
    EXPECT_TRUE(a.permits.try_acquire(3));
    EXPECT_TRUE(a.lock.try_lock());
    a.lock.unlock();
  }
  EXPECT_EQ(counted::live(), 0);
}

class RandomCancellation : public testing::TestWithParam<unsigned> {};

TEST_P(RandomCancellation, EndsWhatItShouldAndNothingElse) { stress::run_seeds(GetParam(), &run_program); }

INSTANTIATE_TEST_SUITE_P(Processors, RandomCancellation, stress::few_and_many, coir_test::processors_name);

}  // namespace
