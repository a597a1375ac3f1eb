// A fiber is a thread of execution to the C++ exception machinery: it may block in catch blocks and in destructors
// during unwinding, migrate there, and rethrow; what is caught and what is in flight stays its own.
#include <atomic>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "counted.hpp"

namespace {

using runtime_test::counted;

class Exceptions : public runtime_test::leak_checked {};

struct numbered : std::runtime_error {
  explicit numbered(int n) : std::runtime_error("exception " + std::to_string(n)), number(n) {}
  int number;
  counted c;
};

int current_number() {
  const std::exception_ptr e = std::current_exception();
  if (e == nullptr) return -1;
  try {
    std::rethrow_exception(e);
  } catch (const numbered& n) {
    return n.number;
  } catch (...) {
    return -2;
  }
}

/// The thread that runs the caller now. pthread_self() is declared const, so that a compiler merges two calls of it.
[[gnu::noinline]] std::thread::id running_on() {
  asm volatile("" ::: "memory");
  return std::this_thread::get_id();
}

/// Many fibers that do the same at once, on whatever processors.
template <class F>
void in_many_fibers(int count, F f) {
  std::vector<coir::task<void>> tasks;
  for (int i = 0; i < count; ++i) tasks.push_back(coir::spawn([f, i] { f(i); }));
  for (coir::task<void>& t : tasks) t.get();
}

TEST_P(Exceptions, ACatchBlockMayBlockAndRethrowItsOwn) {
  run([] {
    in_many_fibers(50, [](int i) {
      for (int k = 0; k < coir_test::scaled(200); ++k) {
        try {
          try {
            throw numbered(i * 1000 + k);
          } catch (const numbered& e) {
            EXPECT_EQ(current_number(), i * 1000 + k);
            coir::yield();
            EXPECT_EQ(e.number, i * 1000 + k);
            EXPECT_EQ(current_number(), i * 1000 + k);
            coir::sleep_for(std::chrono::microseconds(k % 3));
            throw;
          }
        } catch (const numbered& e) {
          ASSERT_EQ(e.number, i * 1000 + k);
        }
        ASSERT_EQ(current_number(), -1);
      }
    });
  });
}

TEST_P(Exceptions, NestedCatchBlocksKeepTheirOrder) {
  run([] {
    in_many_fibers(30, [](int i) {
      try {
        throw numbered(i);
      } catch (const numbered& outer) {
        coir::yield();
        try {
          throw numbered(i + 1000);
        } catch (const numbered& inner) {
          coir::yield();
          EXPECT_EQ(inner.number, i + 1000);
          EXPECT_EQ(current_number(), i + 1000);
        }
        coir::yield();
        EXPECT_EQ(current_number(), i);
        EXPECT_EQ(outer.number, i);
      }
    });
  });
}

struct blocks_when_destroyed {
  int expected_uncaught;
  ~blocks_when_destroyed() {
    EXPECT_EQ(std::uncaught_exceptions(), expected_uncaught);
    coir::yield();
    EXPECT_EQ(std::uncaught_exceptions(), expected_uncaught);
    coir::sleep_for(std::chrono::microseconds(1));
    EXPECT_EQ(std::uncaught_exceptions(), expected_uncaught);
  }
};

TEST_P(Exceptions, DestructorsMayBlockDuringUnwinding) {
  run([] {
    in_many_fibers(50, [](int i) {
      for (int k = 0; k < coir_test::scaled(100); ++k) {
        try {
          const blocks_when_destroyed d{1};
          throw numbered(i);
        } catch (const numbered& e) {
          ASSERT_EQ(e.number, i);
        }
        ASSERT_EQ(std::uncaught_exceptions(), 0);
      }
      const blocks_when_destroyed normally{0};
    });
  });
}

TEST_P(Exceptions, ADestructorDuringUnwindingMayThrowAndCatchOnAnotherThread) {
  struct throws_inside {
    ~throws_inside() {
      EXPECT_EQ(std::uncaught_exceptions(), 1);
      try {
        const blocks_when_destroyed d{2};
        coir::yield();
        throw numbered(77);
      } catch (const numbered& e) {
        coir::yield();
        EXPECT_EQ(e.number, 77);
        EXPECT_EQ(std::uncaught_exceptions(), 1);
      }
    }
  };
  run([] {
    in_many_fibers(30, [](int i) {
      try {
        const throws_inside t;
        throw numbered(i);
      } catch (const numbered& e) {
        EXPECT_EQ(e.number, i);
      }
    });
  });
}

TEST_P(Exceptions, AFiberThatThrowsNothingSeesNothingOfTheOthers) {
  run([] {
    std::atomic<bool> stop{false};
    std::vector<coir::task<void>> throwers;
    for (int i = 0; i < 10; ++i) {
      throwers.push_back(coir::spawn([&, i] {
        while (!stop) {
          try {
            const blocks_when_destroyed d{1};
            throw numbered(i);
          } catch (const numbered&) {
            coir::yield();
          }
        }
      }));
    }
    for (int k = 0; k < coir_test::scaled(5000); ++k) {
      coir::yield();
      ASSERT_EQ(std::uncaught_exceptions(), 0);
      ASSERT_EQ(std::current_exception(), nullptr);
    }
    stop = true;
    for (coir::task<void>& t : throwers) t.get();
  });
}

TEST_P(Exceptions, AFiberStartsWithNoneThoughItsSpawnerIsInACatchBlock) {
  run([] {
    try {
      throw numbered(1);
    } catch (...) {
      coir::spawn([] {
        EXPECT_EQ(current_number(), -1);
        EXPECT_EQ(std::uncaught_exceptions(), 0);
      }).get();
      EXPECT_EQ(current_number(), 1);
    }
  });
}

TEST_P(Exceptions, OneIsCaughtOnAnotherThreadThanItWasThrownOn) {
  // With one processor, too: it is retaken from the fibers that block their thread, and these go on on another one.
  // That is the only way there. Of several processors the others may steal as well.
  coir::runtime rt{opts()};
  std::atomic<int> migrated{0};
  coir_test::until([&] {
    rt.run([&] {
      in_many_fibers(20, [&](int i) {
        std::thread::id thrown_on, caught_on;
        try {
          try {
            throw numbered(i);
          } catch (const numbered&) {
            thrown_on = running_on();
            if (i % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(200);
            do coir::yield();
            while (std::chrono::steady_clock::now() < until);
            caught_on = running_on();
            throw;
          }
        } catch (const numbered& e) {
          EXPECT_EQ(e.number, i);
          if (thrown_on != caught_on) ++migrated;
        }
      });
    });
    return migrated != 0;
  });
  if (GetParam() == 1) {
    EXPECT_GE(rt.metrics().retaken, 1U);
  }
}

TEST_P(Exceptions, AnExceptionPointerTravelsToAnotherFiber) {
  run([] {
    std::exception_ptr kept;
    coir::spawn([&] {
      try {
        throw numbered(5);
      } catch (...) {
        kept = std::current_exception();
      }
    }).get();
    EXPECT_EQ(counted::live(), 1);
    try {
      std::rethrow_exception(kept);
    } catch (const numbered& e) {
      coir::yield();
      EXPECT_EQ(e.number, 5);
    }
    kept = nullptr;
    EXPECT_EQ(counted::live(), 0);
  });
}

TEST_P(Exceptions, AJoinInsideACatchBlockThrowsTheTasksAndKeepsTheFirst) {
  run([] {
    try {
      throw numbered(1);
    } catch (const numbered& first) {
      try {
        coir::spawn([] { throw numbered(2); }).get();
      } catch (const numbered& second) {
        EXPECT_EQ(second.number, 2);
      }
      EXPECT_EQ(first.number, 1);
      EXPECT_EQ(current_number(), 1);
    }
  });
}

TEST_P(Exceptions, APlainThreadsStateIsItsOwnToo) {
  try {
    throw numbered(3);
  } catch (const numbered&) {
    run([] {
      EXPECT_EQ(current_number(), -1);
      EXPECT_EQ(std::uncaught_exceptions(), 0);
    });
    EXPECT_EQ(current_number(), 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Processors, Exceptions, coir_test::processors, coir_test::processors_name);

}  // namespace
