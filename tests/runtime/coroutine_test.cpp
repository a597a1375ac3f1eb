// A coroutine by itself, with no runtime: values in both directions, its result, delegation, and each misuse by name.
#include <coir/coroutine.hpp>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "counted.hpp"

namespace {

using coir::coroutine;
using coir_test::expect_throw_message;
using runtime_test::counted;

static_assert(std::is_same_v<coroutine<int, int>::handle, coroutine<int, int, std::string>::handle>);
static_assert(std::is_same_v<decltype(std::declval<coroutine<void>&>().next()), bool>);
static_assert(std::is_same_v<decltype(std::declval<coroutine<int&>&>().next()), int*>);
static_assert(std::is_same_v<decltype(std::declval<coroutine<int>&>().next()), std::optional<int>>);

/// Echoes with a count, until it is sent an empty string; then it is the number of strings.
int echo(coroutine<std::string, std::string>::handle& self) {
  int n = 0;
  for (std::string said = self.yield("ready"); !said.empty(); ++n) said = self.yield(said.append(std::to_string(n)));
  return n;
}

TEST(Coroutine, PassesValuesBothWaysAndReturnsAResult) {
  coroutine<std::string, std::string, int> c(echo);
  EXPECT_FALSE(c.done());
  EXPECT_EQ(c.next(), "ready");
  EXPECT_EQ(c.send("a"), "a0");
  EXPECT_EQ(c.send("b"), "b1");
  EXPECT_FALSE(c.done());
  EXPECT_EQ(c.send(""), std::nullopt);
  EXPECT_TRUE(c.done());
  EXPECT_EQ(c.result(), 2);
  EXPECT_EQ(c.result(), 2) << "may be asked for again";
}

TEST(Coroutine, WithoutInNextGoesOn) {
  coroutine<int, void, std::string> c([](auto& self) {
    self.yield(1);
    int two = 2;
    self.yield(two);
    return std::string("end");
  });
  EXPECT_EQ(c.next(), 1);
  EXPECT_EQ(c.next(), 2);
  EXPECT_EQ(c.next(), std::nullopt);
  EXPECT_EQ(c.next(), std::nullopt);
  EXPECT_EQ(c.result(), "end");
}

TEST(Coroutine, WithoutOutNextSaysWhetherItHasYielded) {
  std::vector<int> got;
  coroutine<void, int> c([&](auto& self) {
    got.push_back(self.yield());
    got.push_back(self.yield());
  });
  EXPECT_TRUE(c.next());
  EXPECT_TRUE(c.send(1));
  EXPECT_FALSE(c.send(2));
  EXPECT_EQ(got, (std::vector<int>{1, 2}));
  c.result();
}

TEST(Coroutine, WithNothingAtAllItJustRunsInPieces) {
  std::string trace;
  coroutine<void> c([&](auto& self) {
    trace += 'a';
    self.yield();
    trace += 'b';
  });
  EXPECT_TRUE(c.next());
  trace += '-';
  EXPECT_FALSE(c.next());
  EXPECT_FALSE(c.next());
  EXPECT_EQ(trace, "a-b");
}

TEST(Coroutine, PassesReferences) {
  int lives_outside = 5;
  coroutine<int&, int&, int&> c([&](auto& self) -> int& {
    int lives_inside = 1;
    int& sent = self.yield(lives_inside);
    EXPECT_EQ(lives_inside, 2);
    ++sent;
    return lives_outside;
  });
  int* inside = c.next();
  ASSERT_NE(inside, nullptr);
  ++*inside;
  int mine = 10;
  EXPECT_EQ(c.send(mine), nullptr);
  EXPECT_EQ(mine, 11);
  EXPECT_EQ(&c.result(), &lives_outside);
}

TEST(Coroutine, PassesMoveOnlyObjectsWithoutACopy) {
  using pointer = std::unique_ptr<counted>;
  {
    coroutine<pointer, pointer, pointer> c([](auto& self) {
      pointer p = self.yield(std::make_unique<counted>(1));
      return self.yield(std::move(p));
    });
    std::optional<pointer> p = c.next();
    const counted* first = p->get();
    p = c.send(std::move(*p));
    EXPECT_EQ(p->get(), first);
    EXPECT_FALSE(c.send(std::move(*p)).has_value());
    EXPECT_EQ(std::move(c).result().get(), first);
  }
  EXPECT_EQ(counted::live(), 0);
}

TEST(Coroutine, MovesWhileItRuns) {
  std::vector<coroutine<int, void, std::string>> some;
  some.emplace_back([&](auto& self) {
    for (int i = 0; i < 100; ++i) some.emplace_back();
    self.yield(1);
    for (int i = 0; i < 1000; ++i) some.emplace_back();
    return std::string("moved, and ended");
  });
  EXPECT_EQ(some[0].next(), 1);
  EXPECT_EQ(some[0].next(), std::nullopt);
  EXPECT_EQ(some[0].result(), "moved, and ended");
  const coroutine<int, void, std::string> none = std::move(some[0]);
  EXPECT_TRUE(some[0].done());
  EXPECT_THROW(some[0].result(), std::logic_error);
}

// ---- delegation ----------------------------------------------------------------------------------------------------

TEST(Coroutine, YieldFromPassesBothWaysAndGivesTheResult) {
  coroutine<std::string, std::string, std::string> c([](auto& self) {
    const int first = self.yield_from(coroutine<std::string, std::string, int>(echo));
    coroutine<std::string, std::string, int> named(echo);
    const int second = self.yield_from(named);
    EXPECT_TRUE(named.done());
    const std::string last = self.yield("between");
    return std::to_string(first) + std::to_string(second) + last;
  });
  EXPECT_EQ(c.next(), "ready");
  EXPECT_EQ(c.send("x"), "x0");
  EXPECT_EQ(c.send(""), "ready");
  EXPECT_EQ(c.send("y"), "y0");
  EXPECT_EQ(c.send("z"), "z1");
  EXPECT_EQ(c.send(""), "between");
  EXPECT_EQ(c.send("end"), std::nullopt);
  EXPECT_EQ(c.result(), "12end");
}

TEST(Coroutine, YieldFromOneThatYieldsNothingOrHasEndedGivesItsResult) {
  coroutine<int, void, std::string> c([](auto& self) {
    coroutine<int, void, std::string> silent([](auto&) { return std::string("silent"); });
    coroutine<int, void, std::string> ended([](auto&) { return std::string("ended"); });
    ended.next();
    return self.yield_from(silent) + self.yield_from(ended);
  });
  EXPECT_EQ(c.next(), std::nullopt);
  EXPECT_EQ(c.result(), "silentended");
}

TEST(Coroutine, YieldFromThrowsWhatTheInnerOneThrows) {
  coroutine<int, void, int> c([](auto& self) {
    coroutine<int, void, int> inner([](auto& inner_self) -> int {
      inner_self.yield(1);
      throw std::runtime_error("inner");
    });
    try {
      return self.yield_from(inner);
    } catch (const std::runtime_error&) {
      self.yield(2);
    }
    return 3;
  });
  EXPECT_EQ(c.next(), 1);
  EXPECT_EQ(c.next(), 2);
  EXPECT_EQ(c.next(), std::nullopt);
  EXPECT_EQ(c.result(), 3);
}

TEST(Coroutine, YieldFromOneWithoutValues) {
  std::string trace;
  coroutine<void> c([&](auto& self) {
    self.yield_from(coroutine<void>([&](auto& inner) {
      trace += 'a';
      inner.yield();
      trace += 'b';
    }));
    trace += 'c';
    self.yield();
  });
  while (c.next()) trace += '-';
  EXPECT_EQ(trace, "a-bc-");
}

struct sum_chain {
  /// The innermost adds up what it is sent; each level adds one.
  static coroutine<int, int, int> of(int depth) {
    return coroutine<int, int, int>(coir::coroutine_options{.stack_size = 64 * 1024}, [depth](auto& self) {
      if (depth > 0) return self.yield_from(of(depth - 1)) + 1;
      int sum = 0;
      for (int in = self.yield(0); in != 0; in = self.yield(sum)) sum += in;
      return sum;
    });
  }
};

TEST(Coroutine, ADeepChainPassesValuesBothWays) {
  constexpr int depth = 500;
  coroutine<int, int, int> c = sum_chain::of(depth);
  EXPECT_EQ(c.next(), 0);
  int sum = 0;
  for (int i = 1; i <= 100; ++i) ASSERT_EQ(c.send(i), sum += i);
  EXPECT_EQ(c.send(0), std::nullopt);
  EXPECT_EQ(c.result(), sum + depth);
}

TEST(Coroutine, HelpersYieldFromAnyDepthWhateverTheResult) {
  struct helper {
    static int ask(coroutine<std::string, int>::handle& self, int times) {
      if (times == 0) return 0;
      return self.yield(std::to_string(times)) + ask(self, times - 1);
    }
  };
  coroutine<std::string, int, long> c([](auto& self) { return static_cast<long>(helper::ask(self, 3)); });
  EXPECT_EQ(c.next(), "3");
  EXPECT_EQ(c.send(10), "2");
  EXPECT_EQ(c.send(20), "1");
  EXPECT_EQ(c.send(30), std::nullopt);
  EXPECT_EQ(c.result(), 60);
}

// ---- exceptions and misuse -----------------------------------------------------------------------------------------

TEST(Coroutine, WhatTheBodyThrowsComesOutOfSendAndAgainOutOfResult) {
  coroutine<int, int, int> c([](auto& self) -> int {
    self.yield(1);
    throw std::runtime_error("from the body");
  });
  c.next();
  expect_throw_message<std::runtime_error>([&] { c.send(1); }, "from the body");
  EXPECT_TRUE(c.done());
  expect_throw_message<std::runtime_error>([&] { c.result(); }, "from the body");
  expect_throw_message<std::runtime_error>([&] { c.result(); }, "from the body");
  EXPECT_EQ(c.next(), std::nullopt);
}

TEST(Coroutine, MisuseIsALogicErrorByName) {
  coroutine<std::string, std::string, int> c(echo);
  expect_throw_message<std::logic_error>([&] { c.send("early"); }, "has not started");
  expect_throw_message<std::logic_error>([&] { c.result(); }, "has not ended");
  EXPECT_EQ(c.next(), "ready");
  expect_throw_message<std::logic_error>([&] { c.next(); }, "waits for a value");
  expect_throw_message<std::logic_error>([&] { c.result(); }, "has not ended");
  EXPECT_EQ(c.send("none of these has harmed it"), "none of these has harmed it0");
  EXPECT_EQ(c.send(""), std::nullopt);
  expect_throw_message<std::logic_error>([&] { c.send("late"); }, "has ended");
  EXPECT_EQ(c.result(), 1);
}

TEST(Coroutine, ResumingItFromItsOwnBodyIsALogicError) {
  coroutine<int, int>* self = nullptr;
  coroutine<int, int> c([&](auto& yields) {
    expect_throw_message<std::logic_error>([&] { self->next(); }, "while its body runs");
    expect_throw_message<std::logic_error>([&] { self->send(1); }, "while its body runs");
    EXPECT_FALSE(self->done());
    EXPECT_EQ(yields.yield(1), 5);
    expect_throw_message<std::logic_error>([&] { self->next(); }, "while its body runs");
    expect_throw_message<std::logic_error>([&] { self->send(1); }, "while its body runs");
  });
  self = &c;
  EXPECT_EQ(c.next(), 1);
  EXPECT_EQ(c.send(5), std::nullopt);
}

// Whoever has the inner one may resume it, or move it, while another's body delegates to it.
TEST(Coroutine, WhatIsDelegatedToMayBeDrainedByOthersMeanwhile) {
  coroutine<int> inner([](auto& self) {
    self.yield(1);
    self.yield(2);
  });
  coroutine<int, void, std::string> outer([&](auto& self) {
    self.yield_from(inner);
    return std::string("went on");
  });
  EXPECT_EQ(outer.next(), 1);
  EXPECT_EQ(inner.next(), 2);
  EXPECT_EQ(inner.next(), std::nullopt);
  EXPECT_EQ(outer.next(), std::nullopt);
  EXPECT_EQ(outer.result(), "went on");
}

TEST(Coroutine, WhatIsDelegatedToMayNotBeMovedAwayMeanwhile) {
  coroutine<int> inner([](auto& self) {
    self.yield(1);
    self.yield(2);
  });
  coroutine<int> outer([&](auto& self) { self.yield_from(inner); });
  EXPECT_EQ(outer.next(), 1);
  coroutine<int> elsewhere = std::move(inner);
  expect_throw_message<std::logic_error>([&] { outer.next(); }, "has not ended");
  EXPECT_EQ(elsewhere.next(), 2);
}

TEST(Coroutine, TakesTheOneThatLivesInTheBodyItReplaces) {
  struct level {
    coroutine<level*> rest;
    int value;
  };
  coroutine<level*> at([](auto& self) {
    level here{coroutine<level*>([](auto& deeper) {
                 level last{{}, 2};
                 deeper.yield(&last);
               }),
               1};
    self.yield(&here);
  });
  level* seen = *at.next();
  EXPECT_EQ(seen->value, 1);
  at = std::move(seen->rest);
  EXPECT_EQ((*at.next())->value, 2);
  EXPECT_EQ(at.next(), std::nullopt);
}

/// Whose move throws if it is told to.
struct moody {
  static inline bool throws = false;
  int value = 0;
  explicit moody(int v) : value(v) {}
  moody(moody&& other) : value(other.value) {
    if (throws) throw std::runtime_error("not today");
  }
};

TEST(Coroutine, AResultWhoseMoveThrowsStaysWhereItIs) {
  using ends = coroutine<int, void, moody>;
  static_assert(!std::is_nothrow_move_constructible_v<ends> && !std::is_nothrow_move_assignable_v<ends>);
  static_assert(std::is_nothrow_move_constructible_v<coroutine<int, void, std::string>>);
  ends c([](auto&) { return moody(3); });
  EXPECT_EQ(c.next(), std::nullopt);
  ends other;
  moody::throws = true;
  EXPECT_THROW(ends(std::move(c)), std::runtime_error);
  EXPECT_THROW(other = std::move(c), std::runtime_error);
  moody::throws = false;
  EXPECT_EQ(c.result().value, 3);
  other = std::move(c);
  EXPECT_EQ(other.result().value, 3);
}

}  // namespace
