// What go and spawn accept as a fiber's function, and that they destroy it exactly once, whatever happens.
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>

#include "counted.hpp"
#include "gate.hpp"

namespace {

using runtime_test::counted;
using runtime_test::gate;

class Closure : public runtime_test::leak_checked {};

TEST_P(Closure, MayBeMoveOnly) {
  run([] {
    coir::task<std::unique_ptr<int>> t = coir::spawn([p = std::make_unique<int>(3)]() mutable { return std::move(p); });
    EXPECT_EQ(*t.get(), 3);
    gate done;
    coir::go([&, p = std::make_unique<int>(4)] {
      EXPECT_EQ(*p, 4);
      done.open();
    });
    done.pass();
  });
}

TEST_P(Closure, MayBeOfAnySize) {
  run([] {
    const auto check = [](auto size) {
      std::array<unsigned char, decltype(size)::value> bytes;
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 7);
      const auto right = [bytes, c = counted()] {
        for (std::size_t i = 0; i < bytes.size(); ++i)
          if (bytes[i] != static_cast<unsigned char>(i * 7)) return false;
        return true;
      };
      EXPECT_TRUE(coir::spawn(right).get()) << bytes.size();
      std::atomic<bool> ok{false};
      gate done;
      coir::go([&ok, &done, right] {
        ok = right();
        done.open();
      });
      done.pass();
      EXPECT_TRUE(ok) << bytes.size();
    };
    [&]<std::size_t... n>(std::index_sequence<n...>) {
      (check(std::integral_constant<std::size_t, n>{}), ...);
    }(std::index_sequence<1, 8, 16, 24, 32, 40, 48, 63, 64, 65, 128, 200, 256, 440, 512, 513, 1000, 4096, 20'000>{});
  });
}

template <std::size_t Alignment>
struct alignas(Alignment) aligned_to {
  int value = 5;
  bool right() const { return reinterpret_cast<std::uintptr_t>(this) % Alignment == 0 && value == 5; }
};

TEST_P(Closure, MayBeOverAligned) {
  run([] {
    const auto check = [](auto alignment) {
      using aligned = aligned_to<decltype(alignment)::value>;
      for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(coir::spawn([v = aligned{}] { return v.right(); }).get());
        gate done;
        coir::go([&done, v = aligned{}] {
          EXPECT_TRUE(v.right());
          done.open();
        });
        done.pass();
      }
    };
    check(std::integral_constant<std::size_t, 16>{});
    check(std::integral_constant<std::size_t, 32>{});
    check(std::integral_constant<std::size_t, 64>{});
    check(std::integral_constant<std::size_t, 256>{});
    check(std::integral_constant<std::size_t, 4096>{});
  });
}

TEST_P(Closure, AnOverAlignedResultIsAligned) {
  struct alignas(128) aligned {
    int value = 6;
  };
  run([] {
    for (int i = 0; i < 20; ++i) {
      const aligned a = coir::spawn([] { return aligned{}; }).get();
      EXPECT_EQ(a.value, 6);
    }
  });
}

int plain_function() { return 11; }

TEST_P(Closure, MayBeAPlainFunction) {
  run([] {
    EXPECT_EQ(coir::spawn(plain_function).get(), 11);
    EXPECT_EQ(coir::spawn(&plain_function).get(), 11);
  });
}

TEST_P(Closure, IsCopiedWhenPassedAsAnLvalue) {
  run([] {
    struct function {
      int calls = 0;
      counted c;
      int operator()() { return ++calls; }
    } f;
    EXPECT_EQ(coir::spawn(f).get(), 1);
    EXPECT_EQ(coir::spawn(f).get(), 1);
    EXPECT_EQ(f.calls, 0);
  });
}

TEST_P(Closure, ThatIsNeverJoinedIsDestroyedOnce) {
  run([] {
    for (int i = 0; i < 200; ++i) coir::go([c = counted(), d = std::make_shared<counted>()] {});
  });
  EXPECT_EQ(counted::live(), 0);
}

TEST_P(Closure, OfATaskIsDestroyedBeforeGetReturns) {
  run([] {
    coir::task<void> t = coir::spawn([c = counted()] {});
    t.wait();
    EXPECT_EQ(counted::live(), 0);
    t.get();
  });
}

TEST_P(Closure, OfATaskThatThrowsIsDestroyedBeforeGetReturns) {
  run([] {
    coir::task<void> t = coir::spawn([c = counted()] { throw std::runtime_error("x"); });
    t.wait();
    EXPECT_EQ(counted::live(), 0);
    EXPECT_THROW(t.get(), std::runtime_error);
  });
}

struct throws_when_copied {
  counted c;
  throws_when_copied() = default;
  throws_when_copied(const throws_when_copied& other) : c(other.c) { throw std::runtime_error("cannot be copied"); }
  void operator()() const { ADD_FAILURE() << "ran"; }
};

TEST_P(Closure, ThatThrowsWhenCopiedLeavesNothingBehind) {
  run([] {
    const throws_when_copied f;
    for (int i = 0; i < 100; ++i) {
      EXPECT_THROW(coir::go(f), std::runtime_error);
      EXPECT_THROW(static_cast<void>(coir::spawn(f)), std::runtime_error);
      ASSERT_EQ(counted::live(), 1);
    }
  });  // and drains: nothing that never started is waited for
}

TEST_P(Closure, ThatThrowsWhenCopiedLeavesNothingBehindInAForeignRuntime) {
  coir::runtime rt{opts()};
  const throws_when_copied f;
  EXPECT_THROW(rt.go(f), std::runtime_error);
  EXPECT_THROW(static_cast<void>(rt.spawn(f)), std::runtime_error);
  rt.wait();
}

TEST_P(Closure, AResultThatThrowsWhenMovedIsTheTasksException) {
  struct result {
    counted c;
    result() = default;
    // NOLINTNEXTLINE(performance-noexcept-move-constructor): that it throws is the point
    result(result&& other) : c(std::move(other.c)) { throw std::runtime_error("cannot be moved"); }
  };
  run([] {
    coir::task<result> t = coir::spawn([]() -> result {
      result r;
      return static_cast<result&&>(r);
    });
    EXPECT_THROW(static_cast<void>(t.get()), std::runtime_error);
  });
}

INSTANTIATE_TEST_SUITE_P(Processors, Closure, coir_test::processors, coir_test::processors_name);

}  // namespace
