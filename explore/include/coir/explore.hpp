// Exploration: a test runs a program under many schedules that coir chooses, on one thread and in virtual time. It can
// run a failing schedule again.
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
// A program that includes this header links the target coir::explore instead of coir::coir. It is the same library,
// with a decision before every operation that other fibers could see. A program that uses both targets does not link.
//
// The function runs as the main function of a fresh runtime for each schedule. At each decision, the strategy says
// which fiber goes on. Time is virtual (<coir/simulate.hpp>): it moves only when every fiber is blocked, and then to
// the next deadline. A schedule fails by one of these:
//   exception       an exception leaves the function or a `go` fiber
//   assertion       an assertion of GoogleTest fails; the test learns of it by the exploration alone
//   deadlock        all fibers are blocked and no timer is pending, or fibers are left blocked at the end
//   livelock        more decisions than explore_options::max_steps
//   nondeterminism  the program does not do the same again under the same schedule
// A failed schedule is shrunk before it is reported.
//
// In an exploration, streams, listeners, UDP sockets and pipes of coir are in memory. The network has the loopback
// addresses alone (127.0.0.0/8, ::1); resolve() knows numbers and "localhost". network_options says what it may do.
//
// In an exploration, blocking(f) runs f inline. Plain threads that use coir, second runtimes, processes, signals(), and
// operations on descriptors (watched_fd, poll()) throw std::logic_error. The native_handle() of a stream is a number
// that the system does not know. An operation that does not use coir (on an atomic variable, on a std::mutex) is no
// decision.
//
// Environment: COIR_SCHEDULE replays that schedule instead, in every explore() of the process. COIR_SCHEDULES and
// COIR_SEED override the options.
//
// Thread safety: each call explores on the thread that makes it. It must be made outside a fiber.
#pragma once

#include <chrono>
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

/// How schedules are chosen. random_walk(), pct() and dfs() make a strategy.
class exploration_strategy {
 public:
  /// The strategies.
  enum class kind : std::uint8_t { random_walk, pct, dfs };

  /// Not for users: random_walk(), pct() and dfs() call it.
  constexpr exploration_strategy(kind k, unsigned parameter) noexcept : kind_(k), parameter_(parameter) {}
  /// Which strategy it is.
  constexpr kind what() const noexcept { return kind_; }
  /// The argument of pct() or dfs(); 0 for random_walk().
  constexpr unsigned parameter() const noexcept { return parameter_; }

 private:
  kind kind_;
  unsigned parameter_;
};

/// Chooses any runnable fiber at each decision, with equal probability.
constexpr exploration_strategy random_walk() noexcept { return {exploration_strategy::kind::random_walk, 0}; }

/// Probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi, Nagarakatte: "A Randomized Scheduler with
/// Probabilistic Guarantees of Finding Bugs", ASPLOS 2010). Fibers have random priorities. At depth - 1 random
/// decisions, the running fiber loses its priority. A schedule finds a bug that needs `depth` ordering constraints
/// among n fibers and k decisions with a probability of at least 1 / (n * k^(depth - 1)). A `yield`, and a poll that
/// finds nothing (`otherwise`, a try operation), lowers the priority of its fiber, so that polling loops end.
constexpr exploration_strategy pct(unsigned depth) noexcept { return {exploration_strategy::kind::pct, depth}; }

/// Runs every schedule with at most `max_preemptions` preemptions, depth first. A preemption is a decision at which a
/// fiber that could go on does not. After a yield another fiber goes on, which is no preemption.
constexpr exploration_strategy dfs(unsigned max_preemptions) noexcept {
  return {exploration_strategy::kind::dfs, max_preemptions};
}

/// What the simulated network of an exploration may do. Bytes and datagrams arrive in any order that a network allows.
/// Faults happen only as often as the options say; whether and when is a choice of the schedule. (A UDP socket with 256
/// datagrams that nobody has received takes no more, though.)
struct network_options {
  /// What is sent arrives at once, or after this time. Zero: always at once.
  std::chrono::nanoseconds latency = std::chrono::milliseconds(10);
  bool split = true;      ///< the bytes of one write may arrive in two parts
  unsigned resets = 0;    ///< how many TCP connections may be reset in one schedule
  unsigned cut_offs = 0;  ///< how often, in one schedule, one server cannot be reached: what is sent is late or lost
  /// For how long. What a connection has sent is given up after 924 seconds, and a new connection after 127 seconds.
  std::chrono::nanoseconds cut_off_time = std::chrono::minutes(1);
  unsigned losses = 0;  ///< how many datagrams may be lost in one schedule
};

/// How much an exploration does, and how it chooses.
struct explore_options {
  std::uint64_t schedules = 10'000;  ///< at most
  /// How schedules are chosen.
  exploration_strategy strategy = pct(3);
  /// The same seed gives the same schedules.
  std::uint64_t seed = 1;
  std::uint64_t max_steps = 1'000'000;  ///< decisions of one schedule; more of them are a livelock
  std::uint64_t shrink_budget = 1'000;  ///< schedules that shrinking a failed one may take
  /// The limit for one schedule, in seconds of real time. A program that blocks the only thread (a std::mutex held
  /// across a decision, a loop without a decision) cannot be unwound. The process then ends with a report.
  double max_seconds = 60;
  /// A file of schedules, one in each line, that are tried first. A '#' begins a comment. If the program has changed so
  /// that it cannot follow a schedule to the end, the schedule is followed as far as possible. Empty: no file.
  std::string corpus = {};
  /// What the network may do.
  network_options network = {};
};

/// How a schedule failed; see the top of this file. none: it did not fail.
enum class failure_kind : std::uint8_t { none, exception, assertion, deadlock, livelock, nondeterminism };

/// The name of the kind, for example "deadlock".
const char* to_string(failure_kind kind) noexcept;
/// Writes to_string(kind).
std::ostream& operator<<(std::ostream& out, failure_kind kind);

/// The result of an exploration.
class exploration {
 public:
  using failure = failure_kind;  ///< the type of kind()

  /// Whether a schedule failed.
  bool failed() const noexcept { return kind_ != failure_kind::none; }
  /// True: no schedule failed.
  explicit operator bool() const noexcept { return !failed(); }

  /// How the schedule failed; failure_kind::none if no schedule failed.
  failure_kind kind() const noexcept { return kind_; }
  /// What failed, in one or a few lines. Empty if nothing failed.
  const std::string& what() const noexcept { return what_; }
  /// The shrunk schedule that fails, for replay() and COIR_SCHEDULE. For a passing exploration, the last schedule.
  const std::string& schedule() const noexcept { return schedule_; }
  /// How many schedules were run, without those that shrinking took.
  std::uint64_t schedules() const noexcept { return schedules_; }
  /// The number of decisions of the failed schedule, or of the last one.
  std::uint64_t steps() const noexcept { return steps_; }
  /// Whether dfs() has run every schedule within its bound.
  bool exhausted() const noexcept { return exhausted_; }
  /// The whole report: what failed, each fiber with its stack and what it waits on, the last decisions, and the
  /// schedule.
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

/// Writes the report; for a passing exploration, one line.
std::ostream& operator<<(std::ostream& out, const exploration& e);

namespace detail {
/// explore() for a std::function.
exploration explore_function(const explore_options& o, const std::function<void()>& f, source_location at);
/// replay() for a std::function.
exploration replay_function(const std::string& schedule, const explore_options& o, const std::function<void()>& f,
                            source_location at);
}  // namespace detail

/// Runs f under schedules that the strategy chooses, until one fails. Calls f once for each schedule, always on the
/// calling thread. Prints nothing, except its progress if that takes long and stderr is a terminal. Throws
/// std::logic_error inside a fiber or an exploration; std::invalid_argument if COIR_SCHEDULE, COIR_SCHEDULES, COIR_SEED
/// or the corpus is malformed; and std::bad_alloc.
template <class F>
exploration explore(const explore_options& o, F&& f, source_location at = source_location::current()) {
  return detail::explore_function(o, std::function<void()>(std::ref(f)), at);
}
/// The same with the default options.
template <class F>
exploration explore(F&& f, source_location at = source_location::current())
  requires std::is_invocable_v<F&>
{
  return explore(explore_options{}, std::forward<F>(f), at);
}

/// Runs f once, under that schedule. If f does not do the same as when the schedule was recorded, the kind is
/// nondeterminism. Throws as explore() does, and std::invalid_argument if `schedule` is not a schedule.
template <class F>
exploration replay(const std::string& schedule, F&& f, source_location at = source_location::current()) {
  return detail::replay_function(schedule, explore_options{}, std::function<void()>(std::ref(f)), at);
}
/// The same with options.
template <class F>
exploration replay(const std::string& schedule, const explore_options& o, F&& f,
                   source_location at = source_location::current()) {
  return detail::replay_function(schedule, o, std::function<void()>(std::ref(f)), at);
}

/// A choice that the program makes: a number from 0 to n - 1. The strategy chooses it, and the schedule records it.
/// Outside an exploration it is 0. Throws std::invalid_argument if n is 0.
unsigned choose(unsigned n);

}  // namespace coir
