// A generator by itself, with no runtime: its values in order, from any call depth; its end; what it may yield; what it
// throws; that a loop that was left is gone on with; misuse.
#include <coir/generator.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "counted.hpp"

namespace {

using coir::generator;
using runtime_test::counted;

static_assert(std::ranges::input_range<generator<int>>);
static_assert(std::ranges::input_range<generator<const int>>);
static_assert(std::ranges::input_range<generator<std::unique_ptr<int>>>);
static_assert(std::ranges::input_range<generator<std::string&>>);
static_assert(std::ranges::input_range<generator<const std::string&>>);
static_assert(std::is_same_v<std::ranges::range_value_t<generator<const std::string&>>, std::string>);
static_assert(std::is_same_v<std::ranges::range_reference_t<generator<const std::string&>>, const std::string&>);
static_assert(std::is_same_v<std::ranges::range_reference_t<generator<std::string>>, std::string&&>);
static_assert(std::is_nothrow_move_constructible_v<generator<int>> && !std::is_copy_constructible_v<generator<int>>);
static_assert(std::is_same_v<decltype(std::declval<generator<int>&>().next()), std::optional<int>>);
static_assert(std::is_same_v<decltype(std::declval<generator<const int&>&>().next()), const int*>);

template <class T>
std::vector<T> all(generator<T> g) {
  std::vector<T> values;
  for (T v : g) values.push_back(std::move(v));
  return values;
}

void count_down(int n, generator<int>::yielder& yield) {
  if (n == 0) return;
  yield(n);
  count_down(n - 1, yield);
  yield(-n);
}

generator<int> numbers(int n) {
  return generator<int>([n](auto& yield) {
    for (int i = 0; i < n; ++i) yield(i);
  });
}

TEST(Generator, GivesItsValuesInOrderFromAnyCallDepth) {
  const generator<int>::yielder* handle = nullptr;
  generator<int> g([&](auto& yield) {
    handle = &yield;
    yield(7);
    count_down(3, yield);
    yield(8);
  });
  EXPECT_EQ(handle, nullptr) << "the body begins when the first value is asked for";
  EXPECT_EQ(all(std::move(g)), (std::vector<int>{7, 3, 2, 1, -1, -2, -3, 8}));
  EXPECT_NE(handle, nullptr);
}

TEST(Generator, NextIsEmptyAtTheEndAndStaysSo) {
  generator<int> g = numbers(2);
  EXPECT_FALSE(g.done());
  EXPECT_EQ(g.next(), 0);
  EXPECT_EQ(g.next(), 1);
  EXPECT_FALSE(g.done());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(g.next(), std::nullopt);
    EXPECT_TRUE(g.done());
    EXPECT_EQ(g.begin(), g.end());
  }
}

TEST(Generator, OneThatYieldsNothingIsEmptyAndRunsItsBodyOnce) {
  int ran = 0;
  generator<int> g([&](auto&) { ++ran; });
  for (int v : g) FAIL() << v;
  EXPECT_EQ(g.next(), std::nullopt);
  EXPECT_EQ(ran, 1);
  EXPECT_TRUE(generator<int>().done());
  EXPECT_EQ(generator<int>().next(), std::nullopt);
}

TEST(Generator, ALoopThatWasLeftIsGoneOnWithByTheNext) {
  generator<int> g = numbers(6);
  for (int v : g)
    if (v == 1) break;
  EXPECT_EQ(g.next(), 2);
  std::vector<int> rest;
  for (int v : g) rest.push_back(v);
  EXPECT_EQ(rest, (std::vector<int>{3, 4, 5}));
}

TEST(Generator, IsARangeToTheStandardLibrary) {
  generator<int> g = numbers(10);
  int sum = 0;
#if !defined(__clang__)  // Clang 14 cannot compile libstdc++'s views
  for (int v : g | std::views::filter([](int n) { return n % 2 == 0; }) |
                   std::views::transform([](int n) { return n * n; }) | std::views::take(3))
    sum += v;
  EXPECT_EQ(sum, 0 + 4 + 16);
#endif
  sum = 0;
  std::ranges::for_each(numbers(5), [&](int v) { sum += v; });
  EXPECT_EQ(sum, 10);
}

TEST(Generator, WalksATreeByRecursion) {
  struct node {
    int value;
    std::unique_ptr<node> left, right;
  };
  struct tree {
    static std::unique_ptr<node> make(int from, int to) {
      if (from == to) return nullptr;
      const int middle = (from + to) / 2;
      return std::make_unique<node>(node{middle, make(from, middle), make(middle + 1, to)});
    }
    static void walk(const node* n, generator<int>::yielder& yield) {
      if (n == nullptr) return;
      walk(n->left.get(), yield);
      yield(n->value);
      walk(n->right.get(), yield);
    }
  };
  const std::unique_ptr<node> root = tree::make(0, 1000);
  int expected = 0;
  for (int v : generator<int>([&](auto& yield) { tree::walk(root.get(), yield); })) ASSERT_EQ(v, expected++);
  EXPECT_EQ(expected, 1000);
}

TEST(Generator, FromYieldsAllOfARangeAndAllOfAnotherGenerator) {
  generator<int> g([](auto& yield) {
    yield.from(std::array{1, 2});
    yield.from(numbers(3));
    generator<int> rest = numbers(5);
    rest.next();
    yield.from(rest);
    yield.from(std::vector<short>{8, 9});
  });
  EXPECT_EQ(all(std::move(g)), (std::vector<int>{1, 2, 0, 1, 2, 1, 2, 3, 4, 8, 9}));
}

struct chain {
  static generator<int> of(int depth) {
    return generator<int>(coir::coroutine_options{.stack_size = 64 * 1024}, [depth](auto& yield) {
      if (depth > 0) yield.from(of(depth - 1));
      yield(depth);
    });
  }
};

TEST(Generator, AChainOfAHundredPassesValuesThrough) {
  std::vector<int> expected(101);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all(chain::of(100)), expected);
}

// ---- what may be yielded -------------------------------------------------------------------------------------------

TEST(Generator, YieldsWhatConvertsAndCopiesWhatTheBodyKeeps) {
  generator<std::string> g([](auto& yield) {
    std::string mine = "mine";
    const std::string constant = "constant";
    yield("literal");
    yield(mine);
    yield(mine + "!");
    yield(constant);
    EXPECT_EQ(mine, "mine") << "the consumer has moved out of its own copy";
  });
  EXPECT_EQ(all(std::move(g)), (std::vector<std::string>{"literal", "mine", "mine!", "constant"}));
}

TEST(Generator, YieldsMoveOnlyObjects) {
  generator<std::unique_ptr<int>> g([](auto& yield) {
    for (int i = 0; i < 3; ++i) yield(std::make_unique<int>(i));
  });
  EXPECT_EQ(**g.next(), 0);
  int expected = 1;
  for (std::unique_ptr<int> p : g) EXPECT_EQ(*p, expected++);
  EXPECT_EQ(expected, 3);
}

TEST(Generator, YieldsObjectsThatCannotEvenMove) {
  struct fixed {
    explicit fixed(int v) : value(v) {}
    fixed(const fixed&) = delete;
    int value;
  };
  generator<fixed> g([](auto& yield) {
    yield(fixed(1));
    yield(fixed(2));
  });
  int sum = 0;
  for (auto&& f : g) sum += f.value;
  EXPECT_EQ(sum, 3);
}

TEST(Generator, YieldsReferencesToWhatLivesInTheBody) {
  generator<std::string&> g([](auto& yield) {
    std::string text = "a";
    yield(text);
    EXPECT_EQ(text, "ab");
    yield(text);
    EXPECT_EQ(text, "abc");
  });
  std::string* first = g.next();
  ASSERT_NE(first, nullptr);
  *first += 'b';
  std::string* second = g.next();
  EXPECT_EQ(second, first);
  *second += 'c';
  EXPECT_EQ(g.next(), nullptr);
}

TEST(Generator, CopiesNothingThatIsYieldedByConstReference) {
  const std::vector<counted> source(3);
  const int live = counted::live();
  generator<const counted&> g([&](auto& yield) {
    for (const counted& c : source) yield(c);
    yield.from(source);
  });
  std::size_t i = 0;
  for (const counted& c : g) {
    EXPECT_EQ(&c, &source[i++ % 3]);
    EXPECT_EQ(counted::live(), live);
  }
  EXPECT_EQ(i, 6U);
}

struct alignas(64) wide {
  char text[64];
};

TEST(Generator, OveralignedValuesAndClosuresAreAligned) {
  wide w{};
  w.text[63] = 'x';
  generator<wide> g([w](auto& yield) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&w) % 64, 0U);
    wide mine = w;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&mine) % 64, 0U);
    yield(mine);
  });
  EXPECT_EQ(g.next()->text[63], 'x');
}

// ---- the closure ---------------------------------------------------------------------------------------------------

TEST(Generator, TheClosureMayBeMoveOnlyAndIsDestroyedOnce) {
  ASSERT_EQ(counted::live(), 0);
  {
    generator<int> never([c = counted(1)](auto& yield) { yield(c.value()); });
    generator<int> left([c = std::make_unique<counted>(2)](auto& yield) {
      yield(c->value());
      yield(0);
    });
    generator<int> ended([c = counted(3)](auto& yield) { yield(c.value()); });
    EXPECT_EQ(left.next(), 2);
    EXPECT_EQ(ended.next(), 3);
    EXPECT_EQ(counted::live(), 3);
    EXPECT_EQ(ended.next(), std::nullopt);
    EXPECT_EQ(counted::live(), 2) << "the end gives all back, not the destructor";
  }
  EXPECT_EQ(counted::live(), 0);
}

TEST(Generator, AClosureThatThrowsWhenMovedLeavesNothing) {
  struct bad {
    bad() = default;
    bad(const bad& other) : c(other.c) { throw std::runtime_error("not to be moved"); }
    void operator()(generator<int>::yielder&) {}
    counted c;
  };
  const bad b;
  for (int i = 0; i < 100; ++i)
    coir_test::expect_throw_message<std::runtime_error>([&] { generator<int> g(b); }, "not to be moved");
  EXPECT_EQ(counted::live(), 1);
}

TEST(Generator, AFunctionMayBeTheBody) {
  struct functions {
    static void three(generator<int>::yielder& yield) { count_down(1, yield); }
  };
  EXPECT_EQ(all(generator<int>(functions::three)), (std::vector<int>{1, -1}));
  EXPECT_EQ(all(generator<int>(&functions::three)), (std::vector<int>{1, -1}));
}

TEST(Generator, ALargeClosureDoesNotEatUpTheStack) {
  std::array<char, 100'000> large{};
  large.back() = 'x';
  generator<char> g(coir::coroutine_options{.stack_size = 64 * 1024}, [large](auto& yield) {
    volatile char frame[30'000];
    frame[0] = large.back();
    yield(char{frame[0]});
  });
  EXPECT_EQ(g.next(), 'x');
}

TEST(Generator, MovesWhileSuspendedAndWhileItRuns) {
  std::vector<generator<int>> some;
  some.emplace_back([&](auto& yield) {
    yield(1);
    for (int i = 0; i < 100; ++i) some.push_back(numbers(1));  // *this moves
    yield(2);
    for (int i = 0; i < 1000; ++i) some.push_back(numbers(1));  // again, and then it ends
  });
  EXPECT_EQ(some[0].next(), 1);
  some[0] = generator<int>(std::move(some[0]));
  EXPECT_EQ(some[0].next(), 2);
  EXPECT_EQ(some[0].next(), std::nullopt);
  EXPECT_TRUE(some[0].done());
  EXPECT_EQ(some.size(), 1101U);
}

// ---- exceptions and misuse -----------------------------------------------------------------------------------------

TEST(Generator, WhatTheBodyThrowsComesOutOnceAndIsTheEnd) {
  const auto throwing = [](int after) {
    return generator<int>([after](auto& yield) {
      for (int i = 0; i < after; ++i) yield(i);
      throw std::runtime_error("from the body");
    });
  };
  generator<int> at_next = throwing(1);
  EXPECT_EQ(at_next.next(), 0);
  coir_test::expect_throw_message<std::runtime_error>([&] { at_next.next(); }, "from the body");
  EXPECT_TRUE(at_next.done());
  EXPECT_EQ(at_next.next(), std::nullopt);

  generator<int> at_begin = throwing(0);
  coir_test::expect_throw_message<std::runtime_error>([&] { at_begin.begin(); }, "from the body");
  EXPECT_EQ(at_begin.begin(), at_begin.end());

  generator<int> at_increment = throwing(2);
  int seen = 0;
  coir_test::expect_throw_message<std::runtime_error>(
      [&] {
        for (int v : at_increment) EXPECT_EQ(v, seen++);
      },
      "from the body");
  EXPECT_EQ(seen, 2);
}

TEST(Generator, ResumingItFromItsOwnBodyIsALogicError) {
  generator<int>* self = nullptr;
  generator<int> g([&](auto& yield) {
    coir_test::expect_throw_message<std::logic_error>([&] { self->next(); }, "resumed while its body runs");
    yield(1);
    generator<int> other([&](auto&) {
      coir_test::expect_throw_message<std::logic_error>([&] { self->next(); }, "resumed while its body runs");
    });
    other.next();
    yield(2);
  });
  self = &g;
  EXPECT_EQ(g.next(), 1);
  EXPECT_EQ(g.next(), 2);
  EXPECT_EQ(g.next(), std::nullopt);
}

TEST(Generator, AYieldFromOutsideTheBodyIsALogicError) {
  generator<int>::yielder* leaked = nullptr;
  generator<int> g([&](auto& yield) {
    leaked = &yield;
    yield(1);
  });
  g.next();
  coir_test::expect_throw_message<std::logic_error>([&] { (*leaked)(2); }, "outside the running body");
  EXPECT_EQ(g.next(), std::nullopt);
}

TEST(Generator, AnImpossibleStackSizeIsRefused) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1000}, std::size_t{1} << 40})
    coir_test::expect_throw_message<std::invalid_argument>(
        [&] { generator<int> g(coir::coroutine_options{.stack_size = size}, [](auto&) {}); }, "stack_size");
}

// A body may yield to its consumer from inside another generator's body that it resumes: the two stacks are suspended
// and gone on with as one.
TEST(Generator, ABodyMayYieldFromInsideTheBodyOfAnother) {
  generator<int> outer([](auto& yield) {
    generator<char> inner([&](auto& letters) {
      for (char c : {'a', 'b'}) {
        yield(c - 'a' + 100);
        letters(c);
        yield(c - 'a' + 200);
      }
    });
    for (char c : inner) yield(c);
  });
  EXPECT_EQ(all(std::move(outer)), (std::vector<int>{100, 'a', 200, 101, 'b', 201}));
}

struct list_end {
  int value;
  generator<list_end*> rest;
};

TEST(Generator, TakesTheOneThatLivesInTheBodyItReplaces) {
  generator<list_end*> at([](auto& yield) {
    list_end here{1, generator<list_end*>([](auto& deeper) {
                    list_end last{2, {}};
                    deeper(&last);
                  })};
    yield(&here);
  });
  list_end* const seen = *at.next();
  EXPECT_EQ(seen->value, 1);
  at = std::move(seen->rest);
  EXPECT_EQ((*at.next())->value, 2);
  EXPECT_EQ(at.next(), std::nullopt);
}

}  // namespace
