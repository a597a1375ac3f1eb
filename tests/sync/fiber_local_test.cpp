// fiber_local: every fiber and every plain thread has its own value, made at the first use, gone at the end.
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <coir/chan.hpp>
#include <coir/fiber_local.hpp>
#include <coir/runtime.hpp>
#include <coir/wait_group.hpp>

#include "coir_test.hpp"

namespace {

using namespace std::chrono_literals;

std::atomic<int> alive{0};

struct tracked {
  tracked() { alive.fetch_add(1); }
  ~tracked() { alive.fetch_sub(1); }
  tracked(const tracked&) = delete;
  tracked& operator=(const tracked&) = delete;
  int n = 0;
};

class FiberLocal : public coir_test::with_processors {
 protected:
  void SetUp() override { ASSERT_EQ(alive, 0); }
  void TearDown() override { EXPECT_EQ(alive, 0); }
};

TEST_P(FiberLocal, BeginsAsAValueInitializedObject) {
  struct aggregate {
    int a;
    std::string b;
  };
  const coir::fiber_local<int> number;
  const coir::fiber_local<aggregate> both;
  run([&] {
    EXPECT_EQ(*number, 0);
    EXPECT_EQ(both->a, 0);
    EXPECT_EQ(both->b, "");
    *number = 5;
    both->b = "mine";
    EXPECT_EQ(*number, 5);
    EXPECT_EQ(&*number, &*number);
    EXPECT_EQ(both->b, "mine");
  });
}

TEST_P(FiberLocal, IsEachFibersOwnWhereverItRuns) {
  coir::fiber_local<tracked> mine;
  run([&] {
    coir::wait_group all;
    for (int i = 1; i <= 200; ++i)
      all.go([&mine, i] {
        mine->n = i;
        tracked* const place = &*mine;
        for (int round = 0; round < 20; ++round) {
          if (round % 8 == 0)
            coir::sleep_for(10us);
          else
            coir::yield();
          EXPECT_EQ(mine->n, i);
          EXPECT_EQ(&*mine, place);
        }
      });
    all.wait();
    EXPECT_EQ(alive, 0);
    EXPECT_EQ(mine->n, 0);
  });
}

TEST_P(FiberLocal, IsAThreadsOwnOutsideFibers) {
  coir::fiber_local<tracked> mine;
  std::thread([&] {
    mine->n = 7;
    run([&] {  // blocks this thread
      EXPECT_EQ(mine->n, 0);
      mine->n = 8;
    });
    EXPECT_EQ(mine->n, 7);
    EXPECT_EQ(alive, 1);
  }).join();
  EXPECT_EQ(alive, 0);
}

TEST_P(FiberLocal, IsDestroyedBeforeAJoinReturns) {
  coir::fiber_local<tracked> mine;
  coir::runtime rt{opts()};
  for (int i = 0; i < 50; ++i) {
    rt.run([&] { mine->n = 1; });
    EXPECT_EQ(alive, 0);
    rt.spawn([&] { return mine->n; }).get();
    EXPECT_EQ(alive, 0);
    EXPECT_THROW(rt.spawn([&]() -> int { throw std::runtime_error(std::to_string(mine->n)); }).get(),
                 std::runtime_error);
    EXPECT_EQ(alive, 0);
  }
  rt.run([&] {
    coir::wait_group all;
    for (int i = 0; i < 50; ++i) all.go([&] { mine->n = 1; });
    all.wait();
    EXPECT_EQ(alive, 0);
  });
  for (int i = 0; i < 50; ++i) rt.go([&] { mine->n = 1; });
  rt.wait();
  EXPECT_EQ(alive, 0);
}

TEST_P(FiberLocal, IsDestroyedWhenItsFiberIsCancelled) {
  coir::fiber_local<tracked> mine;
  run([&] {
    coir::task<void> t = coir::spawn([&] {
      mine->n = 1;
      coir::sleep_for(1h);
    });
    coir_test::until_blocked(t);
    t.request_stop();
    EXPECT_THROW(t.get(), coir::task_cancelled);
    EXPECT_EQ(alive, 0);
  });
}

// The control blocks of fibers are recycled: what follows begins with nothing.
TEST_P(FiberLocal, IsNotPassedOnToTheNextFiber) {
  coir::fiber_local<int> mine;
  run([&] {
    for (int i = 0; i < 1000; ++i)
      coir::spawn([&] {
        EXPECT_EQ(*mine, 0);
        *mine = 1;
      }).get();
  });
}

struct blocks_at_its_end {
  ~blocks_at_its_end() {
    if (count == nullptr) return;
    coir::sleep_for(100us);
    coir::yield();
    ++*count;
  }
  std::atomic<int>* count = nullptr;
};

TEST_P(FiberLocal, DestructorsMayBlockEvenInACancelledFiber) {
  coir::fiber_local<blocks_at_its_end> mine;
  std::atomic<int> count{0};
  run([&] {
    std::vector<coir::task<void>> tasks;
    for (int i = 0; i < 20; ++i)
      tasks.push_back(coir::spawn([&] {
        mine->count = &count;
        coir::make_chan<int>().recv();
      }));
    coir_test::until_blocked(tasks);
    for (const auto& t : tasks) t.request_stop();
    for (auto& t : tasks) EXPECT_THROW(t.get(), coir::task_cancelled);
    EXPECT_EQ(count, 20);
  });
}

struct node {
  ~node();
  int rounds = 0;
  tracked counts;
};
const coir::fiber_local<node> first_node, second_node;
node::~node() {
  // Touches the other one, which may be gone by now: then it is made anew.
  if (rounds > 0) (this == &*first_node ? second_node : first_node)->rounds = rounds - 1;
}

TEST_P(FiberLocal, DestructorsMayMakeValuesAnew) {
  run([] {
    for (int i = 0; i < 20; ++i) {
      coir::spawn([] { second_node->rounds = 5; }).get();
      EXPECT_EQ(alive, 0);
    }
  });
  std::thread([] { second_node->rounds = 5; }).join();
  EXPECT_EQ(alive, 0);
}

TEST_P(FiberLocal, AThreadLocalsDestructorMayUseIt) {
  static const coir::fiber_local<tracked> mine;
  struct last {
    ~last() { mine->n = 3; }
  };
  std::thread([] {
    thread_local last at_the_end;  // destroyed after the thread's table, which it makes anew
    static_cast<void>(&at_the_end);
    mine->n = 1;
  }).join();
  EXPECT_EQ(alive, 0);
}

TEST_P(FiberLocal, YoungestIsDestroyedFirst) {
  static std::vector<int> order;
  struct notes {
    ~notes() { order.push_back(n); }
    int n = 0;
  };
  order.clear();
  const coir::fiber_local<notes> a, b, c;
  run([&] {
    coir::spawn([&] {
      c->n = 1;
      a->n = 2;
      b->n = 3;
    }).get();
  });
  EXPECT_EQ(order, (std::vector<int>{3, 2, 1}));
}

TEST_P(FiberLocal, MayBeDestroyedBeforeItsValuesAndItsPlaceIsUsedAgain) {
  run([&] {
    coir::chan<void> go_on = coir::make_chan<void>();
    auto old = std::make_unique<coir::fiber_local<tracked>>();
    coir::task<void> t = coir::spawn([&] {
      (*old)->n = 1;
      go_on.recv();
      go_on.recv();
    });
    go_on.send();
    old.reset();
    const coir::fiber_local<std::string> next;
    EXPECT_EQ(*next, "");
    EXPECT_EQ(alive, 1);
    go_on.send();
    t.get();
    EXPECT_EQ(alive, 0);
    // In one fiber: a value that was left behind makes room for the next one of its place.
    for (int i = 0; i < 1000; ++i) {
      const coir::fiber_local<tracked> local;
      ASSERT_EQ(local->n, 0);
      local->n = 1;
      ASSERT_LE(alive, 10);
    }
  });
}

TEST_P(FiberLocal, AConstructorThatThrowsIsTriedAgain) {
  static int attempts;
  struct picky {
    picky() {
      if (++attempts < 3) throw std::runtime_error("not yet");
    }
    tracked counts;
  };
  attempts = 0;
  const coir::fiber_local<picky> mine;
  run([&] {
    EXPECT_THROW(*mine, std::runtime_error);
    EXPECT_THROW(*mine, std::runtime_error);
    EXPECT_EQ(mine->counts.n, 0);
    EXPECT_EQ(attempts, 3);
  });
}

TEST_P(FiberLocal, ManyAtOnce) {
  run([&] {
    std::vector<std::unique_ptr<coir::fiber_local<tracked>>> many;
    for (int i = 0; i < 100; ++i) many.push_back(std::make_unique<coir::fiber_local<tracked>>());
    std::vector<coir::task<int>> tasks;
    for (int t = 0; t < 50; ++t)
      tasks.push_back(coir::spawn([&many, t] {
        for (std::size_t i = 0; i < many.size(); i += 3) (*many[i])->n = t + static_cast<int>(i);
        coir::yield();
        int wrong = 0;
        for (std::size_t i = 0; i < many.size(); i += 3) wrong += (*many[i])->n != t + static_cast<int>(i);
        return wrong;
      }));
    for (auto& t : tasks) EXPECT_EQ(t.get(), 0);
  });
}

// Keys come and go on several threads at once while fibers use theirs.
TEST_P(FiberLocal, KeysComeAndGoConcurrently) {
  run([&] {
    std::vector<coir::task<void>> tasks;
    for (int t = 0; t < 8; ++t)
      tasks.push_back(coir::spawn([] {
        for (int i = 0; i < coir_test::scaled(2000); ++i) {
          const coir::fiber_local<int> a, b;
          *a = i;
          *b = -i;
          if (i % 16 == 0) coir::yield();
          ASSERT_EQ(*a, i);
          ASSERT_EQ(*b, -i);
        }
      }));
    for (auto& t : tasks) t.get();
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, FiberLocal, coir_test::processors, coir_test::processors_name);

struct endless {
  ~endless();
};
const coir::fiber_local<endless> never_ends;
endless::~endless() { static_cast<void>(*never_ends); }

TEST(FiberLocalDeathTest, DestructorsThatMakeValuesWithoutEndAreReported) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(coir::run([] { static_cast<void>(*never_ends); }), "make new ones without end");
}

}  // namespace
