// Exploration: a test runs a program under many schedules of coir's choosing, on one thread and in virtual time, and
// plays a failing schedule again.
//
//   TEST(Transfer, KeepsTheSum) {
//     const coir::exploration e = coir::explore({.schedules = 10'000, .strategy = coir::pct(3), .seed = 1}, [] {
//       account from(100), to(0);
//       coir::task<void> other = coir::spawn([&] { transfer(from, to, 10); });
//       transfer(from, to, 20);
//       other.get();
//       EXPECT_EQ(from.balance() + to.balance(), 100);
//     });
//     EXPECT_TRUE(e) << e;
//   }
//
// A program that includes this header links the target coir::explore instead of coir::coir: the same library, with a
// decision before every operation that other fibers could see. Both in one program do not link.
//
// The function runs as main of a fresh runtime for each schedule. At each decision the strategy says which fiber goes
// on. Time is virtual (<coir/simulate.hpp>): it moves only when every fiber is blocked, and then to the next deadline.
// A schedule fails by
//   exception       an exception leaves the function or a `go` fiber
//   assertion       an assertion of GoogleTest fails; the test learns of it by the exploration alone
//   deadlock        all fibers are blocked and no timer is pending, or fibers are left blocked at the end
//   livelock        more decisions than explore_options::max_steps
//   nondeterminism  the program does not do the same again under the same schedule
// A failed schedule is shrunk before it is reported.
//
// In an exploration blocking(f) runs f inline. Plain threads that use coir, second runtimes, and operations on
// descriptors throw std::logic_error. What does not go by coir (an atomic variable, a std::mutex) is no decision.
//
// Environment: COIR_SCHEDULE replays that schedule instead, in every explore() of the process; COIR_SCHEDULES and
// COIR_SEED override the options.
//
// Thread safety: each call explores on its own thread, and is called outside a fiber.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <type_traits>
#include <utility>

#include <coir/detail/abi.hpp>
#include <coir/detail/decision.hpp>
#include <coir/simulate.hpp>

namespace coir::inline COIR_ABI {

/// How schedules are chosen: one of the next three.
class exploration_strategy {
 public:
  enum class kind : std::uint8_t { random_walk, pct, dfs };

  constexpr exploration_strategy(kind k, unsigned parameter) noexcept : kind_(k), parameter_(parameter) {}
  constexpr kind what() const noexcept { return kind_; }
  constexpr unsigned parameter() const noexcept { return parameter_; }

 private:
  kind kind_;
  unsigned parameter_;
};

/// At each decision any runnable fiber, with equal probability.
constexpr exploration_strategy random_walk() noexcept { return {exploration_strategy::kind::random_walk, 0}; }

/// Probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi, Nagarakatte: "A Randomized Scheduler with
/// Probabilistic Guarantees of Finding Bugs", ASPLOS 2010). Fibers have random priorities, and at depth - 1 random
/// decisions the running one loses its own. A bug that needs `depth` ordering constraints among n fibers and k
/// decisions is found by a schedule with a probability of at least 1 / (n * k^(depth - 1)). A `yield`, and a poll that
/// finds nothing (`otherwise`, a try operation), lowers the priority of its fiber, so that polling loops end.
constexpr exploration_strategy pct(unsigned depth) noexcept { return {exploration_strategy::kind::pct, depth}; }

/// Every schedule with at most so many preemptions (a fiber that could go on does not), depth first. After a yield
/// another fiber goes on, which is no preemption.
constexpr exploration_strategy dfs(unsigned max_preemptions) noexcept {
  return {exploration_strategy::kind::dfs, max_preemptions};
}

struct explore_options {
  std::uint64_t schedules = 10'000;  ///< at most
  exploration_strategy strategy = pct(3);
  std::uint64_t seed = 1;
  std::uint64_t max_steps = 1'000'000;  ///< decisions of one schedule; beyond them it is a livelock
  std::uint64_t shrink_budget = 1'000;  ///< schedules that shrinking a failed one may take
  /// Of one schedule, in real time. A program that blocks the only thread (a std::mutex held across a decision, a loop
  /// without a decision) cannot be unwound: the process ends with a report.
  double max_seconds = 60;
  /// A file of schedules, one a line, that are tried first; '#' begins a comment. One that the program has outgrown is
  /// followed as far as it goes. Empty: none.
  std::string corpus = {};
};

enum class failure_kind : std::uint8_t { none, exception, assertion, deadlock, livelock, nondeterminism };

/// "deadlock"
const char* to_string(failure_kind kind) noexcept;
std::ostream& operator<<(std::ostream& out, failure_kind kind);

/// What an exploration has found.
class exploration {
 public:
  using failure = failure_kind;

  bool failed() const noexcept { return kind_ != failure_kind::none; }
  /// True: no schedule failed.
  explicit operator bool() const noexcept { return !failed(); }

  failure_kind kind() const noexcept { return kind_; }
  /// What failed, in one line or a few; empty if nothing did.
  const std::string& what() const noexcept { return what_; }
  /// The shrunk schedule that fails, for replay() and COIR_SCHEDULE; of a passing exploration the last one.
  const std::string& schedule() const noexcept { return schedule_; }
  /// How many have been run, without those that shrinking took.
  std::uint64_t schedules() const noexcept { return schedules_; }
  /// Decisions of the failed schedule, or of the last one.
  std::uint64_t steps() const noexcept { return steps_; }
  /// dfs() has run every schedule within its bound.
  bool exhausted() const noexcept { return exhausted_; }
  /// All of it: what failed, each fiber with its stack and what it waits on, the last decisions, the schedule.
  const std::string& report() const noexcept { return report_; }

 private:
  friend struct exploration_access;

  failure_kind kind_ = failure_kind::none;
  bool exhausted_ = false;
  std::uint64_t schedules_ = 0;
  std::uint64_t steps_ = 0;
  std::string what_;
  std::string schedule_;
  std::string report_;
};

/// The report; of a passing exploration one line.
std::ostream& operator<<(std::ostream& out, const exploration& e);

namespace detail {
exploration explore_function(const explore_options& o, const std::function<void()>& f, source_location at);
exploration replay_function(const std::string& schedule, const explore_options& o, const std::function<void()>& f,
                            source_location at);
}  // namespace detail

/// Runs f under schedules of the strategy's choosing until one fails. f is called once for each, always on the calling
/// thread. Prints nothing, but for its progress if that takes long and stderr is a terminal. Throws std::logic_error
/// (inside a fiber or an exploration), std::invalid_argument (a malformed COIR_SCHEDULE, COIR_SCHEDULES, COIR_SEED or
/// corpus), std::bad_alloc.
template <class F>
exploration explore(const explore_options& o, F&& f, source_location at = source_location::current()) {
  return detail::explore_function(o, std::function<void()>(std::ref(f)), at);
}
template <class F>
exploration explore(F&& f, source_location at = source_location::current()) requires std::is_invocable_v<F&> {
  return explore(explore_options{}, std::forward<F>(f), at);
}

/// Runs f once, under that schedule. If f does not do what it did when that was recorded, the kind is nondeterminism.
/// Throws as explore() does, and std::invalid_argument if `schedule` is none.
template <class F>
exploration replay(const std::string& schedule, F&& f, source_location at = source_location::current()) {
  return detail::replay_function(schedule, explore_options{}, std::function<void()>(std::ref(f)), at);
}
template <class F>
exploration replay(const std::string& schedule, const explore_options& o, F&& f,
                   source_location at = source_location::current()) {
  return detail::replay_function(schedule, o, std::function<void()>(std::ref(f)), at);
}

/// A choice of the program's own, from 0 to n - 1, made by the strategy and recorded with the schedule. Outside an
/// exploration it is 0. Throws std::invalid_argument if n is 0.
unsigned choose(unsigned n);

}  // namespace coir
