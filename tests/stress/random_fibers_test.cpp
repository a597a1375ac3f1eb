// Random programs of fibers that start, stop, join, drop and wake each other, at few and at many processors.
//
// What must hold, whatever they do: every fiber that was started ends; a task's result is its own, or its own
// exception; nothing is left behind; and run() returns (else the test's timeout tells).
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "../runtime/counted.hpp"
#include "../runtime/gate.hpp"
#include "coir_test.hpp"
#include "seeded.hpp"

namespace {

using runtime_test::counted;
using runtime_test::gate;
using namespace std::chrono_literals;
using stress::mixed;

/// Thrown by a fiber that has drawn it; says whose it is.
struct planned_failure : std::runtime_error {
  explicit planned_failure(std::uint64_t s) : std::runtime_error("planned"), seed(s) {}
  std::uint64_t seed;
  counted c;
};

/// Where all fibers of one program meet.
struct arena {
  std::atomic<int> may_start{0};  // how many fibers may still be started
  std::atomic<int> started{0};
  std::atomic<int> ended{0};
  std::vector<std::unique_ptr<gate>> gates;
};

/// One fiber: draws what to do from its seed. A task returns its own seed, so that nobody can be given another's
/// result.
class actor {
 public:
  actor(arena& a, std::uint64_t seed, bool may_fail) : arena_(a), seed_(seed), state_(seed), may_fail_(may_fail) {}

  std::uint64_t operator()() {
    arena_.started.fetch_add(1);
    const struct at_end {
      std::atomic<int>& count;
      ~at_end() { count.fetch_add(1); }
    } counts{arena_.ended};
    const counted local;
    std::vector<child> children;  // those that are left are stopped and joined when it ends, or unwinds
    for (std::uint64_t steps = draw(12) + 1; steps > 0; --steps) step(children);
    return seed_;
  }

 private:
  struct child {
    std::uint64_t seed;
    coir::task<std::uint64_t> task;
  };

  std::uint64_t draw(std::uint64_t below) { return (state_ = mixed(state_)) % below; }
  std::chrono::microseconds draw_time() { return std::chrono::microseconds(draw(120)); }
  gate& draw_gate() { return *arena_.gates[draw(arena_.gates.size())]; }

  bool may_start_another() { return arena_.may_start.fetch_sub(1) > 0; }

  void step(std::vector<child>& children) {
    switch (draw(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
        if (may_start_another()) {
          const std::uint64_t s = mixed(state_ ^ 1);
          children.push_back({s, coir::spawn([a = actor(arena_, s, true), c = counted()]() mutable { return a(); })});
        }
        break;
      case 4:
        if (may_start_another()) {
          coir::go([a = actor(arena_, mixed(state_ ^ 2), false), c = counted()]() mutable { a(); });
        }
        break;
      case 5:
      case 6:
        coir::yield();
        break;
      case 7:
        coir::sleep_for(draw_time());
        break;
      case 8:
      case 9:
        if (!children.empty()) join(take(children));
        break;
      case 10:
        if (!children.empty()) {
          const child& c = children[draw(children.size())];
          const bool in_time = c.task.wait_for(draw_time());
          EXPECT_TRUE(!in_time || c.task.ready());
        }
        break;
      case 11:
        if (!children.empty()) children[draw(children.size())].task.request_stop();
        break;
      case 12:
        if (!children.empty()) static_cast<void>(take(children));  // drops it
        break;
      case 13: {
        gate& g = draw_gate();
        if (draw(2) == 0)
          static_cast<void>(g.pass_for(draw_time()));
        else
          g.open();
        break;
      }
      case 14: {
        draw_gate().shut();
        const coir::uncancellable guard;
        coir::sleep_for(draw_time());
        if (!children.empty()) children[draw(children.size())].task.wait();
        break;
      }
      case 15:
        if (may_fail_ && draw(4) == 0) throw planned_failure(seed_);
        break;
    }
  }

  child take(std::vector<child>& children) {
    std::swap(children[draw(children.size())], children.back());
    child c = std::move(children.back());
    children.pop_back();
    return c;
  }

  static void join(child c) {
    try {
      EXPECT_EQ(c.task.get(), c.seed);
    } catch (const planned_failure& e) {
      EXPECT_EQ(e.seed, c.seed);
    } catch (const coir::task_cancelled&) {
    }
  }

  arena& arena_;
  std::uint64_t seed_;
  std::uint64_t state_;
  bool may_fail_;
};

void run_program(unsigned processors, std::uint64_t seed) {
  arena a;
  for (int i = 0; i < 4; ++i) a.gates.push_back(std::make_unique<gate>());
  a.may_start = coir_test::thread_sanitizer ? 200 : 1000;
  std::uint64_t state = mixed(seed);
  const auto draw = [&](std::uint64_t below) { return (state = mixed(state)) % below; };
  coir::options o;
  o.processors = processors;
  o.stack_size = 64 * 1024 * (coir_test::address_sanitizer || coir_test::thread_sanitizer ? 4U : 1U);
  {
    coir::runtime rt{o};
    std::thread foreign;
    if (draw(2) == 0) {
      foreign = std::thread([&, s = mixed(state ^ 3)] {
        for (std::uint64_t i = 0; i < 20; ++i) {
          coir::task<std::uint64_t> t =
              rt.spawn([x = actor(a, mixed(s + i), true), c = counted()]() mutable { return x(); });
          if (i % 3 == 0) t.request_stop();
          if (i % 4 == 0) static_cast<void>(t.wait_for(50us));
          if (i % 2 == 0) {
            try {
              EXPECT_EQ(t.get(), mixed(s + i));
            } catch (const planned_failure&) {
            } catch (const coir::task_cancelled&) {
            }
          }
        }
      });
    }
    for (std::uint64_t i = 0; i < 10; ++i)
      rt.go([x = actor(a, mixed(state + i), false), c = counted()]() mutable { x(); });
    if (draw(4) == 0) rt.cancel();
    if (foreign.joinable()) foreign.join();
    rt.wait();
    EXPECT_EQ(a.started, a.ended);
    EXPECT_EQ(counted::live(), 0);
    for (const auto& g : a.gates) EXPECT_FALSE(g->awaited());
  }
}

class RandomFibers : public testing::TestWithParam<unsigned> {};

TEST_P(RandomFibers, AllEndAndNothingIsLeftBehind) { stress::run_seeds(GetParam(), &run_program); }

INSTANTIATE_TEST_SUITE_P(Processors, RandomFibers, stress::few_and_many, coir_test::processors_name);

}  // namespace
